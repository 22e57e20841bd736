//! Failed requests on one of two records, and their effect on a campaign.

use super::*;

impl Scenario {
    /// Opens a watch on each record. Each watch reports that its record has no holder.
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

/// The store may refuse requests for either record, even if another candidate holds it.
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
        // The store no longer refuses, so the next campaign wins.
        scenario.tables[side as usize].refuses = None;
        scenario.watch();
        scenario.user(Input::Campaign { id: 2, once: false });
        scenario.pass(3 * SECOND);
        assert!(scenario.is_valid(), "{side:?}: {:?}", scenario.told);
    }
}

/// The store refuses the write of the secondary after the candidate has acquired the primary.
#[test]
fn write_refusal_rejects_the_campaign_and_releases_the_primary() {
    let mut scenario = Scenario::campaigning();
    scenario.tables[1].refuses_writes = Some(StoreErrorKind::Forbidden);
    scenario.pass(60 * SECOND);
    assert_eq!(scenario.count(|effect| matches!(effect, Effect::Refuse { campaign: 1, .. })), 1);
    assert_eq!(scenario.holder(Primary), None);
    assert_eq!(scenario.count(|effect| matches!(effect, Effect::Released)), 1);
}
