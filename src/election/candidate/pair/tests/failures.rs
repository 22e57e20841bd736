//! Requests that fail, and campaigns that they end or do not end.

use super::*;

impl Scenario {
    /// Opens a watch on both records, which reports that they have no holder.
    pub(super) fn watch(&mut self) {
        for side in Side::BOTH {
            self.pair.handle(self.now, side, Input::WatchOpened { from_scratch: true });
            self.give_to(side, "");
        }
    }
}

#[test]
fn round_during_a_pause_ends_with_the_earlier_failure() {
    let mut scenario = Scenario::new();
    scenario.tables[1].refuses = Some(StoreErrorKind::Unavailable);
    scenario.tables[1].retry_after = Some(3_600 * SECOND);
    scenario.pass(SECOND);
    scenario.user(Input::Campaign { id: 1, once: true });
    assert_eq!(scenario.count(|effect| matches!(effect, Effect::RoundOver { campaign: 1, error: Some(_) })), 1);
}

/// A refusal of either record, with any holder of the primary.
#[test]
fn refusal_rejects_the_campaign_and_leaves_the_primary_free() {
    for (side, holder) in [(Secondary, None), (Secondary, Some("other")), (Primary, None)] {
        let mut scenario = Scenario::new();
        holder.inspect(|holder| scenario.give_to(Primary, holder));
        scenario.tables[side as usize].refuses = Some(StoreErrorKind::Forbidden);
        scenario.user(Input::Campaign { id: 1, once: false });
        scenario.pass(60 * SECOND);
        assert_eq!(scenario.count(|effect| matches!(effect, Effect::Refuse { campaign: 1, .. })), 1);
        assert_eq!((scenario.holder(Primary), scenario.written.len()), (holder, 0));
        // The right is granted.
        scenario.tables[side as usize].refuses = None;
        scenario.watch();
        scenario.user(Input::Campaign { id: 2, once: false });
        scenario.pass(3 * SECOND);
        assert!(scenario.is_valid(), "{side:?}: {:?}", scenario.told);
    }
}

/// The secondary is refused after the primary was acquired.
#[test]
fn write_refusal_rejects_the_campaign_and_releases_the_primary() {
    let mut scenario = Scenario::campaigning();
    scenario.tables[1].refuses_writes = Some(StoreErrorKind::Forbidden);
    scenario.pass(60 * SECOND);
    assert_eq!(scenario.count(|effect| matches!(effect, Effect::Refuse { campaign: 1, .. })), 1);
    assert_eq!(scenario.holder(Primary), None);
    assert_eq!(scenario.count(|effect| matches!(effect, Effect::Released)), 1);
}
