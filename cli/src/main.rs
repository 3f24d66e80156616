//! The `netlab` command.
//!
//! Invariant: nothing is computed here. The libraries find the answer; this crate reads arguments and files,
//! prints what was found and exits with the code that says it.

mod args;
mod claims;
mod command;
mod ends;
mod enforcement;
mod exit;
mod failure;
mod lab;
mod load;
mod output;
mod question;

fn main() -> std::process::ExitCode {
    command::run(std::env::args_os()).into()
}
