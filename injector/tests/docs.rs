//! `docs/injection.md` is made from the code, and is held against it here. `UPDATE=1` writes it anew.

#![expect(clippy::unwrap_used, reason = "a test stops at its first surprise")]

use std::fmt::Write as _;
use std::path::Path;

#[test]
fn the_page_says_what_the_code_says() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/injection.md");
    let page = page();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        found == page,
        "docs/injection.md is behind the code: UPDATE=1 cargo test -p injector --test docs"
    );
}

fn page() -> String {
    let mut page = String::from(
        "# Adding the proxy to pods\n\n<!-- Made from the code by injector/tests/docs.rs; change it there. -->\n\n\
         `tidegate-injector inject -f FILE` adds the proxy to every workload of a manifest: pods, what makes pods, streams of \
         documents and lists, in YAML or JSON. It prints the manifest; what it did goes to standard error. Documents that do \
         not change keep their text. Doing it twice changes nothing.\n\n\
         A pod gets two init containers before its own: `tidegate-redirect` sets the redirection rules and ends, \
         `tidegate-proxy` is a native sidecar (Kubernetes 1.29 or later): it is up before the application's first container \
         and goes on until after its last, so Jobs end as they did. The proxy passes Pod Security `restricted`; only \
         `tidegate-redirect` is root, with `NET_ADMIN` and `NET_RAW`.\n\n\
         **State:** the pods come out as described, but this version has neither an admission webhook that does it in the \
         cluster nor a proxy that takes redirected connections or discovery from a controller: `tidegate-proxy` in these pods \
         would not start without a topology file. Look at the result; do not apply it.\n\n\
         ## Labels and annotations\n\n\
         A value that cannot be read, and a key under `tidegate.io/` that does not exist, are told and otherwise ignored.\n\n",
    );
    page.push_str(&injector::annotations::markdown());
    page.push_str(
        "\n## Pods that are left as they are\n\n\
         | pod | why |\n|---|---|\n\
         | label `tidegate.io/inject: disabled` | it says so |\n\
         | `hostNetwork: true` | the rules would change the node's traffic |\n\
         | Windows | the proxy runs on Linux |\n\
         | has the proxy of Linkerd, Istio, Kuma, Consul or Open Service Mesh | two proxies would take each other's traffic |\n\
         | in a namespace with Pod Security `baseline` or `restricted` | it would be refused for `NET_ADMIN`; with `tidegate.io/redirect: none` it gets the proxy without rules |\n\
         | listens on 4240, 4243 or 4291 | the proxy does too |\n\
         | in `kube-system` | the cluster must come up without the mesh |\n\n\
         ## Flags of `tidegate-injector inject`\n\n| flag | variable | default | what it is |\n|---|---|---|---|\n",
    );
    let command = injector::cli::command();
    let inject = command.find_subcommand("inject").unwrap();
    for argument in inject.get_arguments().filter(|argument| argument.get_id() != "help") {
        let flag = argument.get_long().unwrap();
        let variable = argument
            .get_env()
            .map_or_else(String::new, |name| format!("`{}`", name.to_string_lossy()));
        let default = argument
            .get_default_values()
            .first()
            .map_or_else(String::new, |value| format!("`{}`", value.to_string_lossy()));
        let about = argument.get_help().unwrap();
        writeln!(page, "| `--{flag}` | {variable} | {default} | {about} |").unwrap();
    }
    page
}
