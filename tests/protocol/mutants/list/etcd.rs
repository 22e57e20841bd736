//! Records in etcd.

use super::*;

const ETCD: &str = "src/store/etcd.rs";
const ETCD_CLIENT: &str = "src/etcd/client.rs";
const ETCD_GUARDED: &str = "src/store/etcd/guarded.rs";
const ETCD_MESSAGE: &str = "src/etcd/message.rs";

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a record in etcd is replaced by its revisions alone",
        why: "a restored etcd gives them again, and another's record is overwritten",
        edits: &[Edit {
            file: ETCD_MESSAGE,
            old: "            compare(\"VALUE\", \"value\", encode(&kv.value)),\n",
            new: "",
        }],
        caught_by: Unit("etcd::message::tests::a_record_is_replaced_at_its_revisions_and_its_value"),
    },
    Mutant {
        name: "an answer without a revision is one of etcd",
        why: "whatever says {} is read as an absent record, and a create follows",
        edits: &[Edit {
            file: ETCD_MESSAGE,
            old: "0 => Err(Malformed(\"it names no revision\".to_owned())),",
            new: "u64::MAX => Err(Malformed(\"it names no revision\".to_owned())),",
        }],
        caught_by: Unit("etcd::message::tests::what_is_no_answer_of_etcd_is_not_read_as_an_absent_key"),
    },
    Mutant {
        name: "a write that may have been received goes to another member of etcd",
        why: "what the first copy did is told of the second as certainly not done",
        edits: &[Edit {
            file: ETCD_CLIENT,
            old: "if is_last || (error.maybe_sent() && !may_repeat) {",
            new: "if is_last {",
        }],
        caught_by: Unit("store::etcd::tests::a_write_that_may_have_been_received_goes_to_no_other_member"),
    },
    Mutant {
        name: "a write to etcd that was sent twice is certainly not applied when the second fails",
        why: "the first may have been, and its guard is never told",
        edits: &[Edit { file: ETCD_CLIENT, old: "is_second: true", new: "is_second: false" }],
        caught_by: Unit("store::etcd::tests::a_comparison_that_fails_is_definite_but_for_a_second_copy"),
    },
    Mutant {
        name: "connections to etcd beside one that hung are used again",
        why: "what has befallen it has mostly befallen all, and a release goes out on one that is as dead",
        edits: &[Edit { file: ETCD_CLIENT, old: "member.idle.forget_idle_since(began)", new: "_ = (member, began)" }],
        caught_by: Unit("store::etcd::tests::stale_connections_are_not_reused"),
    },
    Mutant {
        name: "a watch of etcd waits for a revision that it has not come to",
        why: "after a restore it is silent, and then begins in the middle",
        edits: &[Edit { file: ETCD, old: "if watch.revision() < after {", new: "if watch.revision() < 1 {" }],
        caught_by: Unit("store::etcd::tests::a_watch_that_etcd_does_not_begin_ends_with_the_reason"),
    },
    Mutant {
        name: "a guarded transaction of etcd is tried again whosever the record is",
        why: "a former leader writes under another's term",
        edits: &[Edit {
            file: ETCD_GUARDED,
            old: "Ok(observed) if Term::of(&observed.record) == term => {}",
            new: "Ok(_) if term == term => {}",
        }],
        caught_by: Unit("store::etcd::tests::a_guarded_transaction_is_tried_again_only_within_its_term"),
    },
];
