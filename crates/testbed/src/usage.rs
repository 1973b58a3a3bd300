//! What a process used, and the pages that it serves: for figures that tests print.
//!
//! All functions panic where the process or its page cannot be had: they are for tests.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// User and system time of a process.
#[must_use]
pub fn processor_time(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    // utime and stime, in hundredths of a second: fields 14 and 15 of proc(5), counted from the state.
    let ticks: u64 = fields[11..13].iter().map(|t| t.parse::<u64>().expect("a number")).sum();
    Duration::from_millis(ticks * 10)
}

/// Memory of a process in MiB, by its name in proc(5)'s `status`: `VmRSS`, `RssAnon`.
#[must_use]
pub fn memory_mib(pid: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).expect("it has memory");
    line.split_whitespace().next().expect("a number").parse::<u64>().expect("a number") / 1024
}

/// Status and body of a page.
#[must_use]
pub fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it answers");
    let (head, body) = text.split_once("\r\n\r\n").expect("an answer");
    let status = head.split(' ').nth(1).expect("a status").parse().expect("a number");
    (status, body.trim().to_owned())
}
