//! Users and their rights.

use std::collections::BTreeSet;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use parking_lot::RwLock;
use ureq_proto::http::{HeaderMap, header};

use crate::object::resource::{Resource, Verb};
use crate::object::status::StatusObject;

/// A user of the server, with credentials and rights.
///
/// The token serves as bearer token and as password of basic authentication. With TLS, a user can also have a [client
/// certificate](crate::ApiServer::client_certificate).
///
/// # Examples
/// ```
/// use leasehold_testing::{ApiServer, Resource, User, Verb};
///
/// let reader = User::new("reader", "s3cret")
///     .grant(Verb::Get, Resource::Leases)
///     .grant(Verb::List, Resource::Leases);
/// let server = ApiServer::builder().user(User::admin()).user(reader).start()?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct User {
    name: String,
    token: String,
    rights: Rights,
}

#[derive(Clone, Debug)]
enum Rights {
    All,
    Only(BTreeSet<(Verb, Resource)>),
}

/// The user of a request.
#[derive(Clone, Debug)]
pub(crate) struct RequestUser {
    /// The user's name. `None` is possible only on a server without users.
    pub name: Option<String>,
    rights: Rights,
}

/// The users of a server. A server without users accepts every request.
#[derive(Debug, Default)]
pub(crate) struct Users(RwLock<Vec<User>>);

impl User {
    /// Creates a user without rights.
    pub fn new(name: impl Into<String>, token: impl Into<String>) -> User {
        User { name: name.into(), token: token.into(), rights: Rights::Only(BTreeSet::new()) }
    }

    /// Creates `admin` (token `admin-token`), who may do everything and impersonate every user.
    pub fn admin() -> User {
        User::new("admin", "admin-token").grant_all()
    }

    /// Creates `candidate` (token `candidate-token`), who may run elections with a watch.
    ///
    /// The rights are get, create, update and watch on leases.
    pub fn candidate() -> User {
        User { name: "candidate".into(), token: "candidate-token".into(), ..User::no_watch() }
            .grant(Verb::Watch, Resource::Leases)
    }

    /// Creates `no-watch` (token `no-watch-token`): a candidate without the `watch` verb.
    pub fn no_watch() -> User {
        User::new("no-watch", "no-watch-token")
            .grant(Verb::Get, Resource::Leases)
            .grant(Verb::Create, Resource::Leases)
            .grant(Verb::Update, Resource::Leases)
    }

    /// Creates `nobody` (token `nobody-token`), who may log in and has no rights.
    pub fn nobody() -> User {
        User::new("nobody", "nobody-token")
    }

    /// Adds a right, in all namespaces. Does nothing for a user with all rights.
    #[must_use]
    pub fn grant(mut self, verb: Verb, resource: Resource) -> User {
        if let Rights::Only(rights) = &mut self.rights {
            rights.insert((verb, resource));
        }
        self
    }

    /// Adds all rights, including impersonation.
    #[must_use]
    pub fn grant_all(mut self) -> User {
        self.rights = Rights::All;
        self
    }

    pub(crate) fn with_token(self, token: impl Into<String>) -> User {
        User { token: token.into(), ..self }
    }

    /// Returns the name, as in `User "…" cannot get resource "leases"`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the token.
    pub fn token(&self) -> &str {
        &self.token
    }
}

impl RequestUser {
    pub fn may(&self, verb: Verb, resource: Resource) -> bool {
        match &self.rights {
            Rights::All => true,
            Rights::Only(rights) => rights.contains(&(verb, resource)),
        }
    }
}

impl Users {
    /// Adds a user, or replaces the user of the same name.
    pub fn set(&self, user: User) {
        let mut users = self.0.write();
        match users.iter_mut().find(|known| known.name == user.name) {
            Some(known) => *known = user,
            None => users.push(user),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.read().is_empty()
    }

    pub fn find(&self, name: &str) -> Option<User> {
        self.0.read().iter().find(|user| user.name == name).cloned()
    }

    /// Returns the user of these headers. `certified` is the user of the client certificate.
    pub fn authenticate(&self, headers: &HeaderMap, certified: Option<&str>) -> Result<RequestUser, StatusObject> {
        let impersonated = headers.get("impersonate-user").and_then(|value| value.to_str().ok());
        if self.is_empty() {
            return Ok(RequestUser { name: impersonated.map(str::to_owned), rights: Rights::All });
        }
        let user = match headers.get(header::AUTHORIZATION) {
            Some(value) => value.to_str().ok().and_then(|value| self.log_in(value)),
            None => certified.and_then(|name| self.find(name)),
        }
        .ok_or_else(StatusObject::unauthorized)?;
        match (impersonated, &user.rights) {
            (None, _) => Ok(RequestUser { name: Some(user.name), rights: user.rights }),
            (Some(other), Rights::All) => Ok(RequestUser {
                name: Some(other.to_owned()),
                rights: self.find(other).map_or(Rights::Only(BTreeSet::new()), |other| other.rights),
            }),
            (Some(other), Rights::Only(_)) => Err(StatusObject::cannot_impersonate(&user.name, other)),
        }
    }

    fn log_in(&self, authorization: &str) -> Option<User> {
        let (scheme, secret) = authorization.split_once(' ')?;
        let secret = secret.trim();
        let users = self.0.read();
        if scheme.eq_ignore_ascii_case("bearer") {
            return users.iter().find(|user| user.token == secret).cloned();
        }
        if scheme.eq_ignore_ascii_case("basic") {
            let decoded = String::from_utf8(BASE64_STANDARD.decode(secret).ok()?).ok()?;
            let (name, password) = decoded.split_once(':')?;
            return users.iter().find(|user| user.name == name && user.token == password).cloned();
        }
        None
    }
}
