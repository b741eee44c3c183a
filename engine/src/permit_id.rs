//! The ids of permits that expire: what the server keeps for each permit. Pure.
//!
//! An id is the UUID version 5 (RFC 9562) of the engine's client id as the namespace and of the owner's number and the
//! permit's index as the name. So a repeated request names the same permits, and no two owners have an id in common.

use uuid::Uuid;

use crate::owner::Owner;

impl Owner {
    /// The id of one of the owner's permits, counted from 0. On a Redis server it is a member of the semaphore's sorted
    /// set, as 16 bytes.
    ///
    /// # Examples
    /// ```
    /// use leasehold::owner::Owner;
    ///
    /// let owner = Owner::new(Default::default(), 7);
    /// assert_eq!(owner.permit_id(0), owner.permit_id(0));
    /// assert_ne!(owner.permit_id(0), owner.permit_id(1));
    /// ```
    pub fn permit_id(&self, index: u16) -> Uuid {
        let mut name = [0; NAME_BYTES];
        let (number, place) = name.split_at_mut(8);
        number.copy_from_slice(&self.number().to_be_bytes());
        place.copy_from_slice(&index.to_be_bytes());
        version_5(self.client(), name)
    }
}

fn version_5(namespace: Uuid, name: [u8; NAME_BYTES]) -> Uuid {
    let mut block = [0; 64];
    block[..16].copy_from_slice(namespace.as_bytes());
    block[16..INPUT_BYTES].copy_from_slice(&name);
    block[INPUT_BYTES] = 0x80; // the end of the text, by the rule of SHA-1; its length in bits follows
    block[56..].copy_from_slice(&(8 * INPUT_BYTES as u64).to_be_bytes());
    let mut id = sha1_of_block(&block).to_be_bytes();
    id[6] = id[6] & 0x0f | 0x50;
    id[8] = id[8] & 0x3f | 0x80;
    Uuid::from_bytes(id)
}

/// The first 128 of the 160 bits of the SHA-1 digest of a text that fits one padded block.
fn sha1_of_block(block: &[u8; 64]) -> u128 {
    let schedule = schedule_of(block);
    let [mut a, mut b, mut c, mut d, mut e] = START;
    for (round, word) in schedule.into_iter().enumerate() {
        let (mixed, constant) = match round {
            0..20 => (b & c | !b & d, 0x5a82_7999),
            20..40 => (b ^ c ^ d, 0x6ed9_eba1),
            40..60 => (b & c | b & d | c & d, 0x8f1b_bcdc),
            _ => (b ^ c ^ d, 0xca62_c1d6_u32),
        };
        let next =
            a.rotate_left(5).wrapping_add(mixed).wrapping_add(e).wrapping_add(constant).wrapping_add(word);
        (a, b, c, d, e) = (next, a, b.rotate_left(30), c, d);
    }
    [a, b, c, d]
        .into_iter()
        .zip(START)
        .fold(0, |digest, (word, start)| digest << 32 | u128::from(word.wrapping_add(start)))
}

fn schedule_of(block: &[u8; 64]) -> [u32; 80] {
    let mut schedule = [0; 80];
    for (word, bytes) in schedule.iter_mut().zip(block.chunks_exact(4)) {
        *word = bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
    }
    for n in 16..80 {
        let word = schedule[n - 3] ^ schedule[n - 8] ^ schedule[n - 14] ^ schedule[n - 16];
        schedule[n] = word.rotate_left(1);
    }
    schedule
}

/// The number of the owner and the index of the permit.
const NAME_BYTES: usize = 10;
const INPUT_BYTES: usize = 16 + NAME_BYTES;
const START: [u32; 5] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn an_id_is_a_uuid_of_version_5() {
        // The example of Python's module `uuid`.
        let dns = Uuid::from_u128(0x6ba7b810_9dad_11d1_80b4_00c04fd430c8);
        assert_eq!(version_5(dns, *b"python.org").to_string(), "886313e1-3b8a-5372-9b90-0c9aee199e5d");
    }

    #[test]
    fn owners_and_indices_have_ids_of_their_own() {
        let clients = [Uuid::nil(), Uuid::max()];
        let owners = clients.into_iter().flat_map(|client| (0..50).map(move |n| Owner::new(client, n)));
        let ids: BTreeSet<_> = owners.flat_map(|owner| (0..50).map(move |n| owner.permit_id(n))).collect();
        assert_eq!(ids.len(), 2 * 50 * 50);
        assert!(ids.iter().all(|id| id.get_version_num() == 5));
    }
}
