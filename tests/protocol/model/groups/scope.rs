//! The bounds of a search.

/// The bounds of one search over a group.
#[derive(Debug, Clone)]
pub struct GroupScope {
    pub name: &'static str,
    /// The local nanoseconds per tick of each process.
    pub rates: &'static [u64],
    /// The lease duration of each process, in seconds.
    pub leases: &'static [u64],
    pub slots: usize,
    pub shards: usize,
    /// `true` if each shard has a record without an owner at first.
    pub is_seeded: bool,
    /// The number of processes that have joined before the search starts.
    pub warm: usize,
    /// The processes that run and renew in every tick, and learn their own renewals and listings at once.
    pub prompt: &'static [usize],
    pub ticks: u8,
    pub left: Left,
    /// The key whose record may be deleted: a slot, or a shard after both slots.
    pub deletable: usize,
    /// `true` if the watch delivers the events of different records in their order.
    ///
    /// Otherwise only the events of one record are in order.
    pub in_order: bool,
    /// `true` if the watch delivers only the newest version of each record.
    pub skips: bool,
    /// `true` if the elector's requests may be delayed and may fail.
    pub elector_steps: bool,
    /// `true` if a process may act between the events of a listing.
    pub listing_steps: bool,
    /// One of so many states is checked for progress.
    pub sample: u64,
}

/// How many events of each kind may still happen, apart from the protocol's own actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Left {
    /// Watches that are opened. A prompt process opens any number of watches.
    pub opens: u8,
    /// Processes that start during the search.
    pub starts: u8,
    pub crashes: u8,
    /// Requests without an answer. A write may arrive later.
    pub faults: u8,
    /// Watches that end.
    pub cuts: u8,
    /// Edits of a label of a shard's record.
    pub edits: u8,
    pub deletions: u8,
    pub leaves: u8,
    /// Workers that return by themselves.
    pub returns: u8,
    /// Prompt processes that may pause from then on.
    pub pauses: u8,
    /// How many of all these events, except openings, may still happen together.
    pub any: u8,
}

impl Left {
    /// The bounds of a continuation without faults, which opens any number of watches.
    pub const FAIR: Self = Self {
        opens: u8::MAX,
        starts: 0,
        crashes: 0,
        faults: 0,
        cuts: 0,
        edits: 0,
        deletions: 0,
        leaves: 0,
        returns: 0,
        pauses: 0,
        any: u8::MAX,
    };

    /// Notes the events that have happened since `before`. After the last one, no other event may happen.
    pub fn spend(&mut self, before: &Self) {
        let sum = |it: &Self| {
            let of_processes = it.starts + it.crashes + it.leaves + it.returns + it.pauses;
            of_processes + it.faults + it.cuts + it.edits + it.deletions
        };
        self.any -= sum(before) - sum(self);
        if self.any == 0 {
            *self = Self { opens: self.opens, any: 0, ..Self::FAIR };
        }
    }
}
