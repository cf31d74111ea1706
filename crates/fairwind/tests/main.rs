//! The command as its users meet it.

mod advisor;
mod agent;
mod cc;
mod command_line;
mod confined;
mod demo;
mod everybody;
mod ftp_client;
mod ftp_load;
mod lab_exec;
mod lab_exec_host;
mod lab_run;
mod measure;
mod pages;
mod proftpd;
mod refusals;
mod reproduce;
mod run;
mod run_direct;
mod serve;
mod serve_operator;
mod serve_pam;
mod serve_rights;
mod serve_tls;
mod trace;
mod turn;
