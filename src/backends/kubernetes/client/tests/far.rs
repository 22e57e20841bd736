//! Tests of a standby that keeps its connection to a distant server open.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use std::{io, thread};

use super::{Client, LONG};
use crate::LeaderElector;
use crate::kubernetes::ClientConfig;
use crate::net::dial::{Cancelled, Network, System};
use crate::net::pool::FarIdle;
use crate::net::tests::wait_until;
use leasehold_testing::{ApiServer, Fault, RequestLog, Verb};

/// A network whose connections open slowly.
struct Distant;

impl Network for Distant {
    fn look_up(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        System.look_up(host, port)
    }

    fn connect(&self, address: SocketAddr, timeout: Duration, cancelled: &Cancelled) -> io::Result<TcpStream> {
        thread::sleep(Duration::from_millis(20));
        System.connect(address, timeout, cancelled)
    }
}

#[test]
fn distant_standby_takes_over_on_the_connection_of_its_reads() {
    let server = ApiServer::start().unwrap();
    server.fault(Fault::delay(Duration::from_millis(20)));
    let config = |user_agent| ClientConfig::new(&server.url()).unwrap().with_user_agent(user_agent).unwrap();
    let builder = |identity| LeaderElector::builder("far").namespace("default").identity(identity);
    let leader = builder("leader").start_with_client(Client::new(config("leader")).unwrap()).unwrap();
    let guard = leader.block_until_leader().unwrap();

    let mut client = Client::with_network(config("standby"), Distant).unwrap();
    let far = FarIdle { opened_in: Duration::from_millis(10), used_after: Duration::from_millis(300), max_idle: LONG };
    // A connection that is not to a distant server is closed at once.
    client.set_idle(Duration::ZERO, far);
    let standby = builder("standby").start_with_client(client).unwrap();
    let campaign = standby.campaign().unwrap();
    let sent = |verb| {
        let is_of_standby = |it: &RequestLog| it.user_agent.as_deref() == Some("standby") && it.verb == Some(verb);
        server.requests().into_iter().filter(is_of_standby).map(|it| it.connection).collect::<Vec<_>>()
    };
    wait_until("the standby reads", || sent(Verb::Get).len() >= 4);

    guard.release().unwrap();
    let _guard = campaign.receiver().recv_timeout(LONG).unwrap().unwrap();
    assert_eq!(sent(Verb::Update)[0], sent(Verb::Get)[0], "all on one connection");
}
