//! Electors against the in-memory server while it does whatever a server, a proxy or a network can do to a request.
//!
//! The tables below name what goes wrong; the tests say when it goes wrong and what must hold then. Whatever happens,
//! nobody leads whom the store does not show, and as soon as it is over somebody leads again.

mod campaigning;
mod kinds;
mod leading;
mod place;
mod release;
mod strangers;
