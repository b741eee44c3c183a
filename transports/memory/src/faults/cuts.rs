//! The lanes that are cut off, and how often each was.

use leasehold::transport::LanePurpose;

use super::Cut;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cuts {
    calls: CutState,
    renewals: CutState,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CutState {
    pub(super) now: Option<Cut>,
    /// A counter, so that a cut that ended before the watch looked still leaves its gap.
    pub(super) begun: u64,
}

impl Cuts {
    pub(super) fn begin(&mut self, purpose: LanePurpose, cut: Cut) {
        let state = match purpose {
            LanePurpose::Calls => &mut self.calls,
            LanePurpose::Renewals => &mut self.renewals,
        };
        state.begun += u64::from(state.now.is_none());
        state.now = Some(cut);
    }

    pub(super) fn heal(&mut self) {
        (self.calls.now, self.renewals.now) = (None, None);
    }

    pub(super) fn of(self, purpose: LanePurpose) -> CutState {
        match purpose {
            LanePurpose::Calls => self.calls,
            LanePurpose::Renewals => self.renewals,
        }
    }
}
