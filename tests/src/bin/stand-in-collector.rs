//! The stand-in collector: does what the script behind its own executable says.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program whose output is what is tested")]
#![expect(clippy::exit, reason = "a program that ends as it is told")]
#![expect(clippy::zombie_processes, reason = "what it leaves behind is the point")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test program dies loudly")]

use std::{
    fs,
    io::{Read as _, Seek as _, SeekFrom, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio, exit},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals as SignalQueue,
};

#[path = "../stand_in/script.rs"]
#[expect(unreachable_pub, reason = "shared with the library")]
mod script;
#[path = "../stand_in/yaml.rs"]
#[expect(dead_code, reason = "the supervisor's stand-in uses the rest")]
mod yaml;

use script::{End, Exhausts, Grandchild, Health, MAGIC, Script, Signals, Validate, VersionFlag};

/// No stand-in lives longer, whatever its script says, so that a failed test leaves nothing behind for good.
const LIFE: Duration = Duration::from_mins(5);
/// How long it lives on as an orphan.
const ORPHANED: Duration = Duration::from_secs(45);
/// What a hanging question and a lingering grandchild take.
const LONG: Duration = Duration::from_mins(1);
/// It fills no disk by more than this: a test that has set none apart must not fill the machine's.
const MOST: usize = 256 * MIB;
const MIB: usize = 1024 * 1024;

fn main() {
    thread::spawn(|| {
        thread::sleep(LIFE);
        exit(99);
    });
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["stand-in-linger"] => return thread::sleep(LONG),
        ["stand-in-answer", port, parent] => return answer_for(port, parent),
        _ => {}
    }
    let script = own_script();
    match words.as_slice() {
        ["--version" | "-v"] => version(&script),
        ["components"] => components(&script),
        ["featuregate"] => feature_gates(&script),
        ["validate", rest @ ..] => validate(&script, &options(&script, rest)),
        rest => run(&script, &options(&script, rest)),
    }
}

/// The script between the program and the end of its file: JSON, its length in 8 bytes, the magic. Only the end is
/// read: a program may be as large as a real one.
fn own_script() -> Script {
    let mut file = fs::File::open("/proc/self/exe").expect("own executable");
    let mut end = |length: usize| {
        let offset = i64::try_from(length).expect("a short script");
        file.seek(SeekFrom::End(-offset)).expect("an end");
        let mut bytes = vec![0; length];
        file.read_exact(&mut bytes).expect("own executable");
        bytes
    };
    let mark = end(8 + MAGIC.len());
    let Some(length) = mark.strip_suffix(MAGIC).and_then(<[u8]>::first_chunk::<8>) else {
        return Script::default();
    };
    let length = usize::try_from(u64::from_le_bytes(*length)).expect("a short script");
    serde_json::from_slice(&end(length + mark.len())[..length]).expect("a script")
}

fn fail(message: &str) -> ! {
    eprintln!("Error: {message}");
    exit(1)
}

fn version(script: &Script) {
    match &script.version_flag {
        VersionFlag::Prints => println!("{} version {}", script.dist, script.version),
        VersionFlag::Says(text) => println!("{text}"),
        VersionFlag::Missing => fail("unknown flag: --version"),
        VersionFlag::Hangs => thread::sleep(LONG),
        VersionFlag::Crashes => std::process::abort(),
    }
}

fn components(script: &Script) {
    println!("buildinfo:\n    command: {}\n    description: stand-in collector", script.dist);
    println!("    version: {}", script.version);
    let kinds = [
        ("receivers", "receiver", &script.receivers),
        ("processors", "processor", &script.processors),
        ("exporters", "exporter", &script.exporters),
        ("connectors", "connector", &Vec::new()),
        ("extensions", "extension", &script.extensions),
    ];
    for (kind, one, names) in kinds {
        if names.is_empty() {
            println!("{kind}: []");
            continue;
        }
        println!("{kind}:");
        for name in names {
            println!("    - name: {name}\n      module: stand-in/{one}/{name}{one} v{}", script.version);
            let signals: &[&str] =
                if one == "extension" { &["extension"] } else { &["logs", "metrics", "traces"] };
            println!("      stability:");
            for signal in signals {
                println!("        {signal}: Beta");
            }
        }
    }
    println!("providers:");
    for name in ["env", "file", "yaml"] {
        println!("    - scheme: {name}\n      module: stand-in/provider/{name}provider v{}", script.version);
    }
}

fn feature_gates(script: &Script) {
    println!("{:<47}Enabled  Stage   Description", "ID");
    for gate in &script.gates {
        println!("{gate:<47}false    Alpha   A gate.");
    }
}

/// What was asked for on the command line.
struct Options {
    /// As written, environment not put in.
    text: String,
    config: Value,
}

fn options(script: &Script, args: &[&str]) -> Options {
    let (mut config, mut all, mut given) = (Value::Null, String::new(), false);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let (flag, inline) = arg.split_once('=').map_or((*arg, None), |(flag, value)| (flag, Some(value)));
        let mut value = || {
            inline
                .or_else(|| args.next().copied())
                .unwrap_or_else(|| fail(&format!("flag needs an argument: {flag}")))
        };
        match flag {
            "--config" => {
                given = true;
                let file = value();
                let text = fs::read_to_string(file.strip_prefix("file:").unwrap_or(file)).unwrap_or_else(|_| {
                    fail(&format!(
                        "failed to get config: cannot resolve the configuration: cannot retrieve the configuration: unable to read the file file:{file}: open {file}: no such file or directory"
                    ))
                });
                let parsed = yaml::parse(&text)
                    .unwrap_or_else(|error| fail(&format!("failed to get config: {error}")));
                yaml::merge(&mut config, parsed);
                all += &text;
            }
            "--feature-gates" => {
                for gate in value().split(',') {
                    let name = gate.trim_start_matches(['+', '-']);
                    if !script.gates.iter().any(|known| known == name) {
                        fail(&format!(
                            "invalid argument {gate:?} for \"--feature-gates\" flag: no such feature gate {name:?}. valid gates: [{}]",
                            script.gates.join(" ")
                        ));
                    }
                }
            }
            "--set" => _ = value(),
            _ => fail(&format!("unknown flag: {flag}")),
        }
    }
    if !given {
        fail("at least one config flag must be provided");
    }
    if config.as_object().is_none_or(serde_json::Map::is_empty) {
        fail("invalid configuration: empty configuration file");
    }
    Options { text: all, config }
}

/// What is wrong with the configuration, whether it is validated or run.
fn objection(script: &Script, options: &Options) -> Option<String> {
    let head = "failed to get config: cannot unmarshal the configuration: decoding failed due to the following error(s):";
    let kinds = [
        ("receivers", &script.receivers),
        ("processors", &script.processors),
        ("exporters", &script.exporters),
        ("extensions", &script.extensions),
    ];
    for (kind, known) in kinds {
        for id in options.config[kind].as_object().into_iter().flat_map(|map| map.keys()) {
            let name = id.split('/').next().unwrap_or(id);
            if !known.iter().any(|known| known == name) {
                return Some(format!(
                    "{head}\n\n'{kind}' unknown type: {name:?} for id: {id:?} (valid values: [{}])",
                    known.join(" ")
                ));
            }
        }
    }
    match &script.validate {
        Validate::RejectsContaining(text) if options.text.contains(text.as_str()) => {
            Some(format!("{head}\n\n'' has invalid keys: {text}"))
        }
        Validate::NeedsEnv(name) if std::env::var_os(name).is_none() => {
            Some(format!("invalid configuration: environment variable {name:?} is not set"))
        }
        Validate::NeedsFile(path) if fs::read(path).is_err() => {
            Some(format!("invalid configuration: open {path}: cannot be read"))
        }
        Validate::NeedsUser { uid, gid, group } => {
            let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
            let numbers = |name: &str| -> Vec<u32> {
                let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
                line.split_whitespace().filter_map(|word| word.parse().ok()).collect()
            };
            let (uids, gids, groups) = (numbers("Uid:"), numbers("Gid:"), numbers("Groups:"));
            let all = uids.iter().all(|found| found == uid) && gids.iter().all(|found| found == gid);
            let reason = format!("invalid configuration: run as {uids:?}, {gids:?}, groups {groups:?}");
            // The main group may be listed as well, as it is by systemd.
            let others: Vec<_> = groups.into_iter().filter(|found| found != gid).collect();
            (!all || others != [*group]).then_some(reason)
        }
        _ => None,
    }
}

fn validate(script: &Script, options: &Options) {
    match &script.validate {
        Validate::Rejects(error) => fail(error),
        Validate::Hangs => thread::sleep(LONG),
        Validate::Crashes => std::process::abort(),
        Validate::Floods => {
            let line = "x".repeat(1023) + "\n";
            let mut out = std::io::stdout().lock();
            (0..8 * 1024).for_each(|_| out.write_all(line.as_bytes()).unwrap());
        }
        _ => {}
    }
    if let Some(error) = objection(script, options) {
        fail(&error);
    }
}

fn run(script: &Script, options: &Options) {
    let begin = Instant::now();
    let mut signals = SignalQueue::new([SIGINT, SIGTERM]).expect("signal handlers");
    if let Some(error) = objection(script, options) {
        fail(&error);
    }
    let service = &options.config["service"];
    let bootstrap = service["pipelines"].as_object().is_none_or(serde_json::Map::is_empty);
    let wanted: Vec<&str> =
        service["extensions"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();

    println!("info\tStarting {}...\t{{\"Version\": \"{}\"}}", script.dist, script.version);
    let stopping = Arc::new(AtomicBool::new(false));
    let health = &options.config["extensions"]["health_check"];
    if wanted.contains(&"health_check") {
        let endpoint = yaml::expand(health["endpoint"].as_str().unwrap_or("localhost:13133"));
        serve_health(script, &endpoint, begin, stopping.clone());
    }
    if wanted.contains(&"opamp") {
        let opamp = &options.config["extensions"]["opamp"];
        connect(opamp["server"]["ws"]["endpoint"].as_str().unwrap_or_default());
        watch_parent(opamp);
    }
    let mut held = Vec::new();
    if !bootstrap {
        endpoints(&options.config["receivers"], &mut |endpoint| {
            held.push(bind(endpoint, "failed to start \"otlp\" receiver"));
        });
    }
    println!("info\tEverything is ready. Begin running and processing data.");

    if !bootstrap {
        if !script.says.is_empty() {
            eprintln!("{}", script.says);
        }
        start_grandchild(script.grandchild);
        exhaust(&script.exhausts);
    }
    if !bootstrap || script.also_in_bootstrap {
        end(&script.end);
    }
    if script.floods {
        thread::spawn(|| {
            loop {
                println!("{}", "flood ".repeat(100));
            }
        });
    }
    for _ in signals.forever() {
        match script.signals {
            Signals::Ignore => println!("info\tReceived signal from OS, ignored"),
            Signals::Stop { after_ms } => {
                println!("info\tReceived signal from OS\ninfo\tStarting shutdown...");
                stopping.store(true, Ordering::SeqCst);
                thread::sleep(Duration::from_millis(after_ms));
                println!("info\tShutdown complete.");
                exit(0);
            }
            Signals::Fail { code } => {
                stopping.store(true, Ordering::SeqCst);
                exit(code);
            }
        }
    }
}

fn exhaust(exhausts: &Exhausts) {
    match exhausts {
        Exhausts::Nothing => {}
        Exhausts::Memory { mib } => {
            for _ in 0..*mib {
                // Written to, for memory is only taken by use.
                std::mem::forget(std::hint::black_box(vec![1_u8; MIB]));
            }
        }
        Exhausts::Disk { directory } => {
            let path = PathBuf::from(directory).join("queue");
            let error = fill(&path).err().map_or("no end to it".to_owned(), |error| error.to_string());
            fail(&format!("cannot write {}: {error}", path.display()))
        }
    }
}

fn fill(path: &Path) -> std::io::Result<()> {
    let mut file = fs::OpenOptions::new().create(true).append(true).open(path)?;
    let block = [1; 4096];
    (0..MOST / block.len()).try_for_each(|_| file.write_all(&block))
}

fn bind(endpoint: &str, doing: &str) -> TcpListener {
    TcpListener::bind(endpoint).unwrap_or_else(|error| {
        let reason = match error.kind() {
            std::io::ErrorKind::AddrInUse => "address already in use".to_owned(),
            _ => error.to_string(),
        };
        fail(&format!("{doing}: failed to bind to address {endpoint}: listen tcp {endpoint}: bind: {reason}"))
    })
}

fn endpoints(config: &Value, each: &mut dyn FnMut(&str)) {
    for (key, value) in config.as_object().into_iter().flatten() {
        match value.as_str() {
            Some(endpoint) if key == "endpoint" => each(&yaml::expand(endpoint)),
            _ => endpoints(value, each),
        }
    }
}

fn serve_health(script: &Script, endpoint: &str, begin: Instant, stopping: Arc<AtomicBool>) {
    if matches!(script.health, Health::OtherProcess) {
        return start_impostor(endpoint);
    }
    if matches!(script.health, Health::Absent) {
        return;
    }
    let listener = bind(endpoint, "failed to start extensions");
    let health = script.health.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let since = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
            let well = match health {
                Health::ReadyAfter { ms } => since >= ms,
                Health::UnhealthyAfter { ms } => since < ms,
                Health::Never | Health::Absent | Health::OtherProcess => false,
                Health::Mute => {
                    // Keeps the connection open in silence.
                    std::mem::forget(stream);
                    continue;
                }
            };
            answer(stream, well && !stopping.load(Ordering::SeqCst));
        }
    });
}

fn answer(mut stream: TcpStream, well: bool) {
    let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
    let _ = stream.read(&mut [0; 1024]);
    let (status, body) = if well {
        ("200 OK", r#"{"status":"Server available"}"#)
    } else {
        ("503 Service Unavailable", r#"{"status":"Server not available"}"#)
    };
    let length = body.len();
    let _ = write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
}

/// Says hello to the supervisor, as the opamp extension does by a web socket.
fn connect(endpoint: &str) {
    let address = endpoint.trim_start_matches("ws://").split('/').next().unwrap_or_default().to_owned();
    thread::spawn(move || {
        loop {
            if let Ok(mut stream) = TcpStream::connect(&address) {
                let _ = writeln!(stream, "hello {}", std::process::id());
                let _ = stream.read(&mut [0; 1]);
            }
            thread::sleep(Duration::from_millis(200));
        }
    });
}

/// Stops some time after the supervisor that it was started by is gone. The real one is meant to do so within
/// `ppid_poll_interval` and was seen to live on and stay healthy for 45 s and more.
fn watch_parent(opamp: &Value) {
    let Some(parent) = opamp["ppid"].as_str().and_then(|pid| pid.parse::<u32>().ok()) else { return };
    thread::spawn(move || {
        while std::os::unix::process::parent_id() == parent {
            thread::sleep(Duration::from_millis(200));
        }
        thread::sleep(ORPHANED);
        println!("info\tparent process has ended");
        exit(0);
    });
}

fn start_grandchild(grandchild: Grandchild) {
    let mut command = Command::new("/proc/self/exe");
    command.arg("stand-in-linger").stdin(Stdio::null());
    match grandchild {
        Grandchild::None => return,
        Grandchild::SameGroup => {}
        Grandchild::OtherGroup => _ = command.process_group(0),
    }
    command.spawn().expect("a grandchild");
}

/// Another file, and so another inode, answers in this one's place.
fn start_impostor(endpoint: &str) {
    let copy: PathBuf = std::env::temp_dir().join(format!("stand-in-impostor-{}", std::process::id()));
    fs::copy("/proc/self/exe", &copy).expect("a copy");
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).expect("a mode");
    Command::new(&copy)
        .args(["stand-in-answer", endpoint, &std::process::id().to_string()])
        .stdin(Stdio::null())
        .spawn()
        .expect("an impostor");
    fs::remove_file(copy).expect("a copy to remove");
}

fn answer_for(endpoint: &str, parent: &str) {
    let listener = bind(endpoint, "failed to start extensions");
    let parent: u32 = parent.parse().expect("a process id");
    thread::spawn(move || {
        while std::os::unix::process::parent_id() == parent {
            thread::sleep(Duration::from_millis(50));
        }
        exit(0);
    });
    listener.incoming().flatten().for_each(|stream| answer(stream, true));
}

fn end(end: &End) {
    let end = end.clone();
    thread::spawn(move || match end {
        End::Never => {}
        End::Abort { ms } => {
            thread::sleep(Duration::from_millis(ms));
            std::process::abort();
        }
        End::Exit { ms, code } => {
            thread::sleep(Duration::from_millis(ms));
            exit(code);
        }
    });
}
