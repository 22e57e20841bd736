//! `leasehold observe --group`: shows members, and moves of shards.

use std::io;
use std::time::SystemTime;

use leasehold::group::GroupStatus;
use leasehold::store::MicroTime;
use serde::Serialize;

use super::super::say::{check_stdout, write_stdout};
use super::lines::escaped;
use crate::one_line::OneLine;

/// A change of a slot or a shard. One of `slot` and `shard` is set.
#[derive(Serialize)]
struct GroupChange<'a> {
    time: &'a str,
    group: &'a str,
    event: &'static str,
    slot: Option<u32>,
    shard: Option<u32>,
    /// The member in the slot, or the owner of the shard.
    identity: Option<&'a str>,
    previous_identity: Option<&'a str>,
}

/// Writes the state of a group, or the changes since the state `before`.
///
/// # Errors
///
/// Returns an error if stdout cannot be written, or has no reader.
pub fn show(before: Option<&GroupStatus>, after: &GroupStatus, is_json: bool) -> io::Result<()> {
    let line = if is_json { json } else { plain };
    let text = match before {
        None if !is_json => after.to_string(),
        _ => changes(before, after, line),
    };
    if text.is_empty() { check_stdout() } else { write_stdout(&text) }
}

/// Returns the number of shards that members publish, or that have an owner or a fault.
pub fn shards(status: &GroupStatus) -> u32 {
    let published = status.members.iter().filter_map(|member| member.shards);
    let seen = status.shards.iter().filter(|shard| shard.owner.is_some() || shard.fault.is_some());
    published.chain(seen.map(|shard| shard.index + 1)).max().unwrap_or_default()
}

/// Returns a line for each difference of two states. Without `before`, all members and owners are new.
fn changes(before: Option<&GroupStatus>, after: &GroupStatus, line: fn(&GroupChange<'_>) -> String) -> String {
    let (time, group) = (MicroTime::from(SystemTime::now()), after.name.as_str());
    let mut text = String::new();
    let mut compare = |slot, shard, previous_identity, identity: Option<_>| {
        let event = match (slot, identity) {
            _ if identity == previous_identity => return,
            (Some(_), Some(_)) => "member_joined",
            (Some(_), None) => "member_left",
            (None, Some(_)) => "new_owner",
            (None, None) => "no_owner",
        };
        let time = time.as_str();
        text += &line(&GroupChange { time, group, event, slot, shard, identity, previous_identity });
    };
    let (old_members, old_shards) = before.map_or((&[][..], &[][..]), |it| (&it.members, &it.shards));
    let last_slot = old_members.iter().chain(&after.members).map(|member| member.slot).max();
    for slot in 0..=last_slot.unwrap_or_default() {
        let [previous, present] = [old_members, &after.members]
            .map(|members| members.iter().find(|member| member.slot == slot).map(|member| member.identity.as_str()));
        compare(Some(slot), None, previous, present);
    }
    for shard in &after.shards {
        let previous = old_shards.get(shard.index as usize).and_then(|shard| shard.owner.as_deref());
        compare(None, Some(shard.index), previous, shard.owner.as_deref());
    }
    text
}

fn json(change: &GroupChange<'_>) -> String {
    escaped(&serde_json::to_string(change).expect("a struct of texts and numbers")) + "\n"
}

fn plain(change: &GroupChange<'_>) -> String {
    let GroupChange { time, group, slot, shard, identity, previous_identity, .. } = change;
    let (slot, shard) = (slot.unwrap_or_default(), shard.unwrap_or_default());
    let identity = OneLine(identity.unwrap_or_default());
    let what = match change.event {
        "member_joined" => format!("{identity} is member {slot}"),
        "member_left" => format!("no member {slot}"),
        "new_owner" => format!("{identity} owns shard {shard}"),
        _ => format!("no owner of shard {shard}"),
    };
    let previously = previous_identity.map_or_else(String::new, |it| format!(", previously {}", OneLine(it)));
    format!("{time} {}: {what}{previously}\n", OneLine(group))
}
