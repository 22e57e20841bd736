//! One record on every store, for tests whose processes open the store on their own.

use leasehold::store::Store;
use leasehold::{LeaderElector, LeaderElectorBuilder};

use crate::support::cluster::brief;

/// The record of one test.
pub struct Place<'a> {
    /// Opens the store, for one process.
    pub open: &'a dyn Fn() -> Box<dyn Store>,
    pub key: &'a str,
}

impl Place<'_> {
    pub fn builder(&self, identity: &str) -> LeaderElectorBuilder {
        brief(self.key, identity)
    }

    pub fn elector(&self, identity: &str) -> LeaderElector {
        self.start(self.builder(identity))
    }

    pub fn start(&self, builder: LeaderElectorBuilder) -> LeaderElector {
        builder.start_on((self.open)()).expect("an elector")
    }
}

/// Runs tests of a [`Place`] on each kind of object, and on every other store below a prefix.
macro_rules! on_every_store {
    ($prefix:literal, { $($module:ident $kind:ident),* }, $tests:tt) => {
        $($crate::places::on_every_store!(@kind $module $kind $tests);)*
        $crate::places::on_every_store!(@store $prefix etcd $tests $crate::support::real_store::InEtcd);
        $crate::places::on_every_store!(@store $prefix sqlite $tests $crate::support::real_store::File);
        $crate::places::on_every_store!(@store $prefix mysql $tests $crate::support::real_store::InSql<$crate::support::mariadb::MariaDb>);
        $crate::places::on_every_store!(@store $prefix postgres $tests $crate::support::real_store::InSql<$crate::support::postgres::Postgres>);
        $crate::places::on_every_store!(@memory $tests);
    };
    (@kind $module:ident $kind:ident [$($test:ident),* $(,)?]) => {
        mod $module {
            $(fn $test(cluster: &$crate::support::cluster::Cluster) {
                let store = || $crate::support::kind::Kind::$kind.store(cluster.client("admin"));
                let open = || Box::new(store()) as Box<dyn leasehold::store::Store>;
                super::$test(&$crate::places::Place { open: &open, key: &cluster.lease });
            })*
            $crate::on_both_servers!($($test),*);
        }
    };
    (@store $prefix:literal $module:ident [$($test:ident),* $(,)?] $store:ty) => {
        mod $module {
            use $crate::support::real_store::RealStore;
            $(#[test] fn $test() {
                if let Some(place) = <$store as RealStore>::shared(concat!($prefix, stringify!($test))) {
                    super::$test(&$crate::places::Place { open: &|| place.store(), key: "jobs" });
                }
            })*
        }
    };
    (@memory [$($test:ident),* $(,)?]) => {
        mod memory {
            $(#[test] fn $test() {
                let store = std::sync::Arc::new(leasehold::store::MemoryStore::new());
                super::$test(&$crate::places::Place { open: &|| Box::new(std::sync::Arc::clone(&store)), key: "jobs" });
            })*
        }
    };
}

pub(crate) use on_every_store;
