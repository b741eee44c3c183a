//! What the servers keep under a name.

use leasehold::{
    Description, Engine, Holder, InspectError, LockMode, PermitsDescription,
    transport::{ErrorKind, ForeignText, TransportError},
};

use crate::kind::Inspected;

/// What was seen under a name.
pub(crate) enum Look {
    Lock(Shape, Description),
    Permits(PermitsDescription),
}

/// Which kind of lock a hash on the server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Exclusive,
    Fair,
    ReadWrite,
}

/// Asks the server. With [`Inspected::Auto`] it finds out the kind: a read/write lock has its mode in the hash, a
/// fair lock in use has a line, permits are a number.
///
/// # Errors
/// No answer, a refusal, or a key that holds something else.
pub(crate) async fn look(engine: &Engine, name: &str, kind: Inspected) -> Result<Look, InspectError> {
    let look = look_at(engine, name, kind).await?;
    let Look::Lock(_, seen) = &look else { return Ok(look) };
    match seen.holders.iter().find_map(fault) {
        Some(fault) => Err(no_lock(name, &fault)),
        None => Ok(look),
    }
}

/// Why this is no hold of a lock of the kind that was asked for.
fn fault(holder: &Holder) -> Option<String> {
    let (field, shown) = (&holder.owner, ForeignText(&holder.owner));
    if field == MODE {
        return Some("a read/write lock; leave out --kind, or give --kind read-write".to_owned());
    }
    if !is_owner(field) {
        return Some(format!("a hash that is no lock, its field {shown:?} names no owner; use another name"));
    }
    let is_counted = holder.hold_count > 0;
    let fault = || format!("a hash that is no lock, its field {shown:?} has no count; use another name");
    (!is_counted).then(fault)
}

/// Whether a field of a hash names an owner: a client and a number, of a write hold with `:write` behind it. A release by
/// force asks the same.
fn is_owner(field: &str) -> bool {
    let owner = field.strip_suffix(":write").unwrap_or(field).rsplit_once(':');
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    owner.is_some_and(|(client, number)| !client.is_empty() && is_number(number))
}

fn no_lock(name: &str, fault: &str) -> InspectError {
    let detail = format!("the key of {name:?} holds {fault}");
    InspectError::Transport(TransportError::without_effect(ErrorKind::WrongType, None, detail))
}

async fn look_at(engine: &Engine, name: &str, kind: Inspected) -> Result<Look, InspectError> {
    match kind {
        Inspected::Auto => find_out(engine, name).await,
        Inspected::Exclusive => Ok(Look::Lock(Shape::Exclusive, engine.lock(name).describe().await?)),
        Inspected::Fair => Ok(Look::Lock(Shape::Fair, engine.fair_lock(name).describe().await?)),
        Inspected::ReadWrite => read_write(engine, name).await,
        Inspected::Permits => Ok(Look::Permits(engine.permits(name).describe().await?)),
    }
}

async fn find_out(engine: &Engine, name: &str) -> Result<Look, InspectError> {
    let seen = match engine.fair_lock(name).describe().await {
        Err(error) if is_other(&error) => return permits_or(engine, name, error).await,
        // Without the right to the line, or with a name whose line is in another slot, the hash alone can be read.
        Err(InspectError::Transport(error)) if error.kind.is_final() => engine.lock(name).describe().await?,
        seen => seen?,
    };
    if seen.holders.iter().any(|holder| holder.owner == MODE) {
        return read_write(engine, name).await;
    }
    let shape = if seen.line.is_empty() { Shape::Exclusive } else { Shape::Fair };
    Ok(Look::Lock(shape, with_mode_of(shape, seen)))
}

// An exclusive lock was asked for as a fair one, for its line.
fn with_mode_of(shape: Shape, mut seen: Description) -> Description {
    if shape == Shape::Exclusive && seen.mode == LockMode::Fair {
        seen.mode = LockMode::Exclusive;
        seen.holders.iter_mut().for_each(|holder| holder.mode = LockMode::Exclusive);
    }
    seen
}

async fn read_write(engine: &Engine, name: &str) -> Result<Look, InspectError> {
    Ok(Look::Lock(Shape::ReadWrite, engine.rw_lock(name).read().describe().await?))
}

async fn permits_or(engine: &Engine, name: &str, error: InspectError) -> Result<Look, InspectError> {
    engine.permits(name).describe().await.map(Look::Permits).map_err(|_| error)
}

fn is_other(error: &InspectError) -> bool {
    matches!(error, InspectError::Transport(error) if error.kind == ErrorKind::WrongType)
}

/// The field of a read/write lock that is no owner.
const MODE: &str = "mode";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_of_another_hash_names_no_owner() {
        assert!(["c-1:7", "c:1:63", "c-1:7:write"].into_iter().all(is_owner));
        assert!(!["f", "", ":7", "c-1:", "c-1:x", "c-1:write", "name", MODE].into_iter().any(is_owner));
    }
}
