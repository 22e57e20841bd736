//! The division of the shards over the members.

/// The place of one shard, as a member observes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ShardPlace {
    /// Owned by the member of this slot.
    Owned(usize),
    /// Free, or soon to be free.
    Free,
    /// Not divided, for example because the record is foreign.
    Excluded,
}

/// Returns the slot that each shard belongs to.
///
/// Each of `members` gets an equal share, rounded down or up. The larger shares go to the members that own most. A
/// member keeps its shards up to its share, so a balanced group does not change. The shards with the fewest `moves` move
/// first, so that a shard that its new member does not take stays the next time. Ties are decided by rendezvous hashing
/// (Thaler and Ravishankar, 1998), so all members that observe the same group compute the same result. A shard of a slot
/// that is not in `members` stays where it is. No member gets more than `max_shards`, so some shards may belong to no slot.
pub fn assign(
    members: &[usize],
    places: &[ShardPlace],
    max_shards: Option<usize>,
    moves: impl Fn(usize) -> i32,
) -> Vec<Option<usize>> {
    let mut targets: Vec<_> =
        places.iter().map(|place| if let ShardPlace::Owned(slot) = place { Some(*slot) } else { None }).collect();
    let shards_at = |place: ShardPlace| (0..places.len()).filter(|shard| places[*shard] == place).collect();
    let mut owned: Vec<(usize, Vec<usize>)> =
        members.iter().map(|slot| (*slot, shards_at(ShardPlace::Owned(*slot)))).collect();
    let mut pool = shards_at(ShardPlace::Free);
    if members.is_empty() {
        return targets;
    }
    let total = pool.len() + owned.iter().map(|(_, shards)| shards.len()).sum::<usize>();
    let (share, larger) = (total / members.len(), total % members.len());
    let (share, larger) = match max_shards {
        Some(max_shards) if share >= max_shards => (max_shards, 0),
        _ => (share, larger),
    };
    owned.sort_by_key(|(slot, shards)| (std::cmp::Reverse(shards.len()), *slot));
    let mut deficits = Vec::new();
    for (place, (slot, shards)) in owned.iter_mut().enumerate() {
        let share = share + usize::from(place < larger);
        shards.sort_by_key(|shard| (moves(*shard), weight(*slot, *shard)));
        let surplus = shards.len().saturating_sub(share);
        pool.extend(shards.drain(..surplus));
        deficits.push((*slot, share - shards.len()));
    }
    pool.sort_unstable();
    for shard in pool {
        let open = deficits.iter_mut().filter(|(_, missing)| *missing > 0);
        targets[shard] = open.max_by_key(|(slot, _)| weight(*slot, shard)).map(|(slot, missing)| {
            *missing -= 1;
            *slot
        });
    }
    targets
}

/// Returns a number that orders the members for a shard, and the shards for a member.
pub(super) fn weight(slot: usize, shard: usize) -> u64 {
    mix((slot as u64) << 32 | shard as u64)
}

/// Returns the shard of a key among `shards`.
///
/// The result is the FNV-1a hash of the key (64 bits, from RFC 9923), mixed by the finalizer of SplitMix64, modulo
/// `shards`.
pub fn shard_of(key: &[u8], shards: usize) -> usize {
    let hash = key
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
    usize::try_from(mix(hash) % shards as u64).unwrap_or(0)
}

/// Mixes all bits of a number: the finalizer of SplitMix64 (Steele, Lea and Flood, 2014).
pub(super) const fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(targets: &[Option<usize>], members: &[usize]) -> Vec<usize> {
        members.iter().map(|member| targets.iter().filter(|target| **target == Some(*member)).count()).collect()
    }

    #[test]
    fn shares_differ_by_at_most_one_and_a_balanced_group_stays() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..2_000 {
            let shards = random.usize(1..100);
            let mut members: Vec<_> = (0..12).filter(|_| random.bool()).collect();
            members.push(12);
            let place = |random: &mut fastrand::Rng| match random.usize(0..20) {
                slot @ 0..=12 => ShardPlace::Owned(slot),
                13 => ShardPlace::Excluded,
                _ => ShardPlace::Free,
            };
            let places: Vec<_> = (0..shards).map(|_| place(&mut random)).collect();
            let targets = assign(&members, &places, None, |_| 0);
            let counts = counts(&targets, &members);
            assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1, "{counts:?}");
            let divided: Vec<_> =
                targets.iter().zip(&places).map(|(target, place)| target.map_or(*place, ShardPlace::Owned)).collect();
            assert!(!divided.contains(&ShardPlace::Free));
            assert_eq!(assign(&members, &divided, None, |_| 0), targets, "nothing moves again");
            for (place, target) in places.iter().zip(&targets) {
                match place {
                    ShardPlace::Owned(slot) if !members.contains(slot) => assert_eq!(*target, Some(*slot)),
                    ShardPlace::Excluded => assert_eq!(*target, None),
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn no_member_gets_more_than_the_limit() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..2_000 {
            let (shards, limit) = (random.usize(1..40), random.usize(1..4));
            let members: Vec<_> = (0..random.usize(1..12)).collect();
            let place = |random: &mut fastrand::Rng| match random.usize(0..20) {
                slot @ 0..12 if slot < members.len() => ShardPlace::Owned(slot),
                _ => ShardPlace::Free,
            };
            let places: Vec<_> = (0..shards).map(|_| place(&mut random)).collect();
            let targets = assign(&members, &places, Some(limit), |_| 0);
            let counts = counts(&targets, &members);
            assert!(counts.iter().all(|count| *count <= limit), "{counts:?}");
            assert_eq!(counts.iter().sum::<usize>(), shards.min(limit * members.len()), "{counts:?}");
        }
    }

    #[test]
    fn new_member_gets_only_the_surplus_of_others() {
        let places: Vec<_> = (0..64).map(|shard| ShardPlace::Owned(shard % 3)).collect();
        let targets = assign(&[0, 1, 2, 3], &places, None, |_| 0);
        let moves =
            targets.iter().zip(&places).filter(|(target, place)| target.map(ShardPlace::Owned) != Some(**place));
        assert_eq!(moves.count(), 16);
        assert_eq!(counts(&targets, &[0, 1, 2, 3]), [16; 4]);
    }

    #[test]
    fn shard_of_a_key_never_changes() {
        let vectors = [("", 48), ("a", 39), ("customer-17", 7), ("\u{fc}", 5)];
        for (key, shard) in vectors {
            assert_eq!(shard_of(key.as_bytes(), 64), shard, "{key}");
        }
        assert_eq!(shard_of(b"a", 1), 0);
    }
}
