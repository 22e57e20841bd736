//! The trace that is printed when a single seed is replayed, with one line for each event.

use leasehold::election::{Operation, StoreResponse};
use leasehold::store::{StoreErrorKind, VersionedRecord};

macro_rules! trace {
    ($world:expr, $($what:tt)*) => {
        if $world.traced {
            println!("{:>14.6}  {}", $world.truth as f64 / crate::clock::SECOND as f64, format_args!($($what)*));
        }
    };
}

pub(crate) use trace;

pub fn operation(operation: &Operation) -> String {
    match operation {
        Operation::Get(_) => "get".into(),
        Operation::Create(record) => format!("create {:?} {:?}", record.holder(), record.renew_time),
        Operation::Update(base, record) => {
            format!("update {} {:?} {:?}", base.version, record.holder(), record.renew_time)
        }
    }
}

pub fn observed(observed: &VersionedRecord) -> String {
    let record = &observed.record;
    format!("{} {:?} {:?} {:?}", observed.version, record.holder(), record.renew_time, record.uid)
}

pub fn result(result: &Result<Option<VersionedRecord>, StoreErrorKind>) -> String {
    match result {
        Ok(Some(standing)) => observed(standing),
        Ok(None) => "nothing".into(),
        Err(kind) => format!("{kind:?}"),
    }
}

pub fn answer(answer: &StoreResponse) -> String {
    match answer {
        StoreResponse::Read(_, Some(standing)) => format!("read {}", observed(standing)),
        StoreResponse::Read(_, None) => "read nothing".into(),
        StoreResponse::Written(standing) => format!("written {}", observed(standing)),
        StoreResponse::Failed(error) => format!("{:?} {:?}", error.kind(), error.retry_after()),
    }
}
