//! What the chart tells the programs is what they understand.

use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;
use tests::chart::{named, objects, rendered, values};
use tests::need;
use tests::programs;

/// The variables of a deployment's one container, with a value for those that the cluster fills.
fn variables(objects: &[Value], deployment: &str) -> Vec<(String, String)> {
    let container =
        &named(objects, "Deployment", deployment)["spec"]["template"]["spec"]["containers"][0];
    let variables = container["env"].as_array().unwrap().iter();
    variables
        .map(|variable| {
            let value = variable["value"].as_str().unwrap_or("filled-by-the-cluster");
            (variable["name"].as_str().unwrap().to_owned(), value.to_owned())
        })
        .collect()
}

/// The program reads each variable, and takes its value: with them it gets as far as its kubeconfig, which there is none of.
fn check(program: &PathBuf, arguments: &[&str], variables: &[(String, String)]) {
    let help = Command::new(program).args(arguments).arg("--help").output().unwrap();
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    for (name, _) in variables {
        assert!(
            help.contains(&format!("[env: {name}=")),
            "{}: {name} in {help}",
            program.display()
        );
    }
    let started = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .env("TIDEGATE_KUBECONFIG", "/nowhere")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&started.stderr);
    assert!(errors.contains("/nowhere"), "{}: {errors}", program.display());
}

#[test]
fn the_programs_understand_what_the_chart_sets() {
    need!(programs::chart_tool("helm"));
    for values in values() {
        let objects = objects(&rendered(values.as_deref(), &[]));
        check(&programs::injector(), &["serve"], &variables(&objects, "tidegate-injector"));
        let mut controller = variables(&objects, "tidegate-controller");
        // Its files are read before anything else, and are the cluster's to make.
        controller.retain(|(name, _)| !name.starts_with("TIDEGATE_TLS_"));
        check(&programs::controller(), &[], &controller);
    }
}

#[test]
fn the_ports_that_the_chart_names_are_those_that_the_programs_listen_on() {
    need!(programs::chart_tool("helm"));
    let objects = objects(&rendered(None, &[]));
    let ports = |deployment: &str| {
        let container =
            &named(&objects, "Deployment", deployment)["spec"]["template"]["spec"]["containers"][0];
        let ports = container["ports"].as_array().unwrap().iter();
        let mut ports: Vec<_> = ports.map(|port| port["containerPort"].as_u64().unwrap()).collect();
        ports.sort_unstable();
        ports
    };
    let defaults = |program: PathBuf, arguments: &[&str]| {
        let help = Command::new(program).args(arguments).arg("--help").output().unwrap();
        let help = String::from_utf8_lossy(&help.stdout).into_owned();
        let mut ports: Vec<u64> = help
            .split("[default: 0.0.0.0:")
            .skip(1)
            .filter_map(|rest| rest.split(']').next()?.parse().ok())
            .collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    };
    assert_eq!(ports("tidegate-controller"), defaults(programs::controller(), &[]));
    assert_eq!(ports("tidegate-injector"), defaults(programs::injector(), &["serve"]));
}
