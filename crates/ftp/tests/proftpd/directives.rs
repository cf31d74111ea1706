//! What the configuration takes, and how it refuses the rest.

use std::path::Path;

use fairwind_testing::{ProftpdFolder, or_skip};

#[test]
fn each_wrong_value_is_refused_with_its_line_and_what_would_be_right() {
    let Some(folder) = or_skip(ProftpdFolder::new()) else {
        return;
    };
    let open = folder.path("open-token");
    std::fs::write(&open, "read 0123456789abcdef").unwrap();
    let open = format!("FairwindTokenFile {}", open.display());
    let is_open = format!(
        "FairwindTokenFile: '{}' must be a file that only its owner may read",
        folder.path("open-token").display()
    );
    for (line, said) in [
        (
            "FairwindEngine maybe",
            "FairwindEngine: expected Boolean parameter",
        ),
        (
            "FairwindMode fast",
            "FairwindMode: expected advised, observe, standard or nocc",
        ),
        ("FairwindMode", "FairwindMode: missing parameters"),
        (
            "FairwindAdvisor http://127.0.0.1",
            "FairwindAdvisor: expected http://HOST:PORT, such as http://127.0.0.1:8649",
        ),
        (
            "FairwindAdvisor 127.0.0.1:0",
            "FairwindAdvisor: expected a port from 1 to 65535",
        ),
        (
            "FairwindAdvisor 127.0.0.1:x",
            "FairwindAdvisor: expected a port from 1 to 65535",
        ),
        (
            "FairwindAdvisor https://127.0.0.1:8649",
            "FairwindAdvisor: the module does not speak TLS; let an advisor listen at 127.0.0.1",
        ),
        (
            "FairwindAdvisor unix:/run/advisor.sock",
            "FairwindAdvisor: a Unix socket cannot be reached from a chroot (DefaultRoot); let the \
             advisor listen at 127.0.0.1",
        ),
        (
            "FairwindTimeout 0",
            "FairwindTimeout: expected milliseconds, 1 to 5000",
        ),
        (
            "FairwindTimeout 5s",
            "FairwindTimeout: expected milliseconds, 1 to 5000",
        ),
        (
            "FairwindInterval 0",
            "FairwindInterval: expected seconds, 1 to 86400",
        ),
        (
            "FairwindInterval 9 3",
            "FairwindInterval: the shortest interval is longer than the longest",
        ),
        (
            "FairwindMinimumBytes much",
            "FairwindMinimumBytes: expected a number of bytes, and B, KB, MB, GB or TB after it",
        ),
        (
            "FairwindOwnNetworks example.org",
            "FairwindOwnNetworks: expected networks such as 192.0.2.0/24, not 'example.org'",
        ),
        (
            "FairwindExceptNetworks 192.0.2.0/33",
            "FairwindExceptNetworks: expected networks such as 192.0.2.0/24, not '192.0.2.0/33'",
        ),
        (
            "FairwindOptions KeepAll",
            "FairwindOptions: unknown option 'KeepAll'",
        ),
        (
            "FairwindLog advice.log",
            "FairwindLog: expected an absolute path, or none",
        ),
        (
            "FairwindTokenFile /no/such",
            "FairwindTokenFile: '/no/such': No such file or directory",
        ),
        (open.as_str(), is_open.as_str()),
        (
            "<Directory />\nFairwindEngine on\n</Directory>",
            "FairwindEngine: directive not allowed in <Directory> context",
        ),
    ] {
        let output = folder.tested(line);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{line}: {text}");
        assert!(text.contains(said), "{line}: {text}");
        assert!(
            text.contains(" on line ") && text.contains("proftpd.conf"),
            "{text}"
        );
    }
}

#[test]
fn all_directives_are_taken_together_and_in_all_contexts() {
    let Some(folder) = or_skip(ProftpdFolder::new()) else {
        return;
    };
    let token = folder.path("token");
    std::fs::write(&token, "0123456789abcdef\n").unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&token, private).unwrap();
    let lines = format!(
        "UseIPv6 on\nFairwindAdvisor localhost:8649\nFairwindTokenFile {}\nFairwindMode observe\nFairwindTimeout 50\n\
         FairwindInterval 2 600\nFairwindMinimumBytes 10 MB\nFairwindOwnNetworks 10.0.0.0/8 2001:db8::/32\n\
         FairwindExceptNetworks none\nFairwindOptions KeepNetAdmin\n\
         <Global>\nFairwindTimeout 60\n</Global>\n\
         <VirtualHost 127.0.0.2>\nFairwindEngine off\nFairwindAdvisor http://[::1]:8649/\n</VirtualHost>",
        token.display()
    );
    let output = folder.tested(&lines);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(!text.contains("fairwind"), "{text}");
}

/// The blocks of a page that are marked as ProFTPD's configuration.
fn configurations(page: &str) -> Vec<String> {
    let blocks = page.split("```apache\n").skip(1);
    let blocks = blocks.map(|block| block.split("```").next().unwrap().to_owned());
    blocks.collect()
}

fn page(name: &str) -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    std::fs::read_to_string(docs.join(name)).unwrap()
}

#[test]
fn what_the_guide_configures_is_taken() {
    let Some(folder) = or_skip(ProftpdFolder::new()) else {
        return;
    };
    let blocks = configurations(&page("how-to/proftpd.md"));
    assert_eq!(blocks.len(), 3);
    for block in blocks {
        // The log's folder may be missing where ProFTPD is not installed.
        let here = folder.path("").display().to_string();
        let output = folder.tested(&block.replace("/var/log/proftpd/", &here));
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{block}{text}");
    }
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proftpd/debian/fairwind.conf");
    let example = std::fs::read_to_string(example).unwrap();
    let first = configurations(&page("how-to/proftpd.md")).swap_remove(0);
    assert!(
        example.ends_with(&first),
        "the package's example is the guide's"
    );
}

#[test]
fn the_reference_has_every_directive() {
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proftpd/directives.c");
    let module = std::fs::read_to_string(module).unwrap();
    let table = module
        .split("conftable fairwind_directives[] = {")
        .nth(1)
        .unwrap();
    let table = table.split("};").next().unwrap();
    let mut names: Vec<&str> = table.split('"').skip(1).step_by(2).collect();
    let reference = page("reference/proftpd.md");
    let mut described: Vec<&str> = reference
        .lines()
        .filter_map(|line| line.strip_prefix("### "))
        .collect();
    names.sort_unstable();
    described.sort_unstable();
    assert_eq!(names, described);
}
