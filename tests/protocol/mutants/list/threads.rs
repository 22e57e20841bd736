//! What may happen between any two steps of a thread.

use super::*;

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a release waits for a renewal that hangs",
        why: "a standby waits with it, for as long as a request may take",
        edits: &[Edit {
            file: HANDLE,
            old: "Ok(ReleaseAck::Behind(cancellation)) => cancellation.carry_out(left()),",
            new: "Ok(ReleaseAck::Behind(_)) => {}",
        }],
        caught_by: Threads("leadership::guard::a_hanging_renewal_does_not_hold_up_a_release"),
    },
    Mutant {
        name: "what is told while the thread decides is left lying",
        why: "nobody hears of it before the request is answered that it was about to send",
        edits: &[Edit { file: DEDICATED, old: "        self.core.work_off();\n", new: "" }],
        caught_by: Threads("both::a_hanging_renewal_of_either_does_not_hold_up_the_release_of_both"),
    },
    Mutant {
        name: "a term that nobody waits for any more is kept",
        why: "its guard is nobody's to drop",
        edits: &[Edit {
            file: STATE,
            old: "            self.deferred.keys.extend(key);\n            self.candidacy.handle(clock::now(), Side::Primary, Input::NotTaken);\n",
            new: "            self.deferred.keys.extend(key);\n",
        }],
        caught_by: Threads("hand_over::a_withdrawn_campaign_leaves_nothing_behind"),
    },
    Mutant {
        name: "a campaign is told of when another thread may have ended it",
        why: "a stopped elector takes the lease of whoever leaves it",
        edits: &[Edit {
            file: SLOT,
            old: "        link.leave(Command::Campaign { id, once });\n        drop(state);\n        link.work_off();\n",
            new: "        drop(state);\n        link.tell(Command::Campaign { id, once });\n",
        }],
        caught_by: Threads("hand_over::a_stop_meets_the_beginning_of_a_campaign"),
    },
    Mutant {
        name: "an answer goes to whoever campaigns just then",
        why: "the end of one campaign is told to the next, which goes on unheard",
        edits: &[Edit {
            file: SLOT,
            old: "self.waiting.take_if(|waiting| waiting.id == id)",
            new: "self.waiting.take_if(|waiting| waiting.id > 0 || id == 0)",
        }],
        caught_by: Unit("leadership::campaign::slot::tests::an_answer_to_one_campaign_is_none_to_the_next"),
    },
    Mutant {
        name: "a watch is stopped before its thread is told to end",
        why: "one that begins between the two goes on for ever",
        edits: &[Edit {
            file: WATCHER,
            old: "        self.wake = None;\n        self.cancel_current();\n",
            new: "        self.cancel_current();\n        self.wake = None;\n",
        }],
        caught_by: Threads("watching::a_watcher_that_is_dropped_ends"),
    },
];
