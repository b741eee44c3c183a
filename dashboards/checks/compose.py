"""dashboards/try/: what can be said of the containers without a container. Nothing of it is run here."""
import re
import subprocess

from generator.repository import CHECKOUT

SERVICES = ["redis", "fleet-a", "fleet-b", "prometheus", "grafana"]


def faults(folder):
    try:
        import yaml
    except ImportError:
        return ["no pyyaml: pip install pyyaml==6.0.3, tests/run does it"]
    place = folder / "try"
    read = lambda path: yaml.safe_load(path.read_text())
    services = read(place / "compose.yaml")["services"]
    found = [] if list(services) == SERVICES else [f"compose.yaml has {list(services)}"]
    for name, service in services.items():
        found += [f"compose.yaml, {name}: {fault}" for fault in _service(place, service)]
    ports = [port for service in services.values() for port in service.get("ports", [])]
    found += [f"port {port} is not on loopback, or is there twice" for port in ports if not port.startswith("127.0.0.1:") or ports.count(port) > 1]
    found += _fleets(place, services)
    found += _prometheus(place, services, read(place / "prometheus.yml"))
    return found + [*_grafana(folder, services, read)]


def _service(place, service):
    if not re.fullmatch(r"[\w./-]+:[\w.-]*(\d+\.\d+|try)[\w.-]*", service["image"]):
        yield f"the image {service['image']} has no version"
    for mount in service.get("volumes", []):
        source, _, mode = mount.split(":")
        if not (place / source).exists() or mode != "ro":
            yield f"{mount}: there is no {source}, or it can be written"


def _fleets(place, services):
    """The image has the program, the program has the options, and what builds it is what builds it elsewhere."""
    recipe = (place / "Dockerfile").read_text()
    built, copied = re.search(r"cargo build (.*)", recipe).group(1), re.search(r"COPY --from=build (\S+) (\S+)", recipe)
    alias = re.search(r'fleet-redis = "run (.*) --"', (CHECKOUT / ".cargo/config.toml").read_text()).group(1)
    wanted = alias.replace("--release --quiet", "--release --locked")
    if built != wanted:
        yield f"Dockerfile builds with {built!r}, cargo fleet-redis with {wanted!r}"
    if copied.group(1) != "/src/target/release/fleet" or f'ENTRYPOINT ["{copied.group(2)}"]' not in recipe:
        yield "Dockerfile does not start what it has built"
    if "target" not in (place / "Dockerfile.dockerignore").read_text().split():
        yield "the build takes target/ along"
    if not (place / services["fleet-a"]["build"]["context"]).resolve() == CHECKOUT:
        yield "the image is not built from the checkout"
    known = set(re.findall(r'"(--[a-z-]+)"', (CHECKOUT / "examples/fleet/options.rs").read_text()))
    for name in ("fleet-a", "fleet-b"):
        options = [option.split("=")[0] for option in services[name]["command"]]
        yield from (f"{name}: fleet has no {option}" for option in options if option not in known)
        if services[name]["hostname"] != name or "--url=redis://redis:6379" not in services[name]["command"]:
            yield f"{name} has another host name, or asks another server"


def _prometheus(place, services, config):
    targets = config["scrape_configs"][0]["static_configs"][0]["targets"]
    if targets != ["fleet-a:9464", "fleet-b:9464"] or "--metrics=0.0.0.0:9464" not in services["fleet-a"]["command"]:
        yield f"prometheus.yml scrapes {targets}"
    mounted = dict(mount.split(":")[1::-1] for mount in services["prometheus"]["volumes"])
    if config["rule_files"] != ["/etc/prometheus/rules/*.yml"] or mounted.get("/etc/prometheus/rules") != "../rules":
        yield "prometheus.yml reads other rules than those of rules/"
    if f"--config.file={[at for at, source in mounted.items() if source == './prometheus.yml'][0]}" not in services["prometheus"]["command"]:
        yield "Prometheus reads another prometheus.yml"
    done = subprocess.run(["promtool", "check", "config", "--syntax-only", place / "prometheus.yml"], capture_output=True, text=True)
    if done.returncode != 0:
        yield f"prometheus.yml: {done.stdout}{done.stderr}"


def _grafana(folder, services, read):
    mounted = dict(mount.split(":")[1::-1] for mount in services["grafana"]["volumes"])
    provider = read(folder / "provisioning/grafana/dashboards.yml")["providers"][0]
    if mounted.get(provider["options"]["path"]) != "../boards":
        yield f"the boards are not where Grafana looks: {provider['options']['path']}"
    if provider["folder"] != "Leasehold" or provider["type"] != "file":
        yield "provisioning/grafana/dashboards.yml is no provider of files"
    scrape = {"try/datasource.yml": "try/prometheus.yml", "provisioning/grafana/datasource.yml": "provisioning/prometheus.yml"}
    hosts = {"try/datasource.yml": "http://prometheus:9090", "provisioning/grafana/datasource.yml": "http://127.0.0.1:9090"}
    for source, config in scrape.items():
        one, interval = read(folder / source)["datasources"][0], read(folder / config)["global"]["scrape_interval"]
        if (one["url"], one["jsonData"]["timeInterval"], one["type"]) != (hosts[source], interval, "prometheus"):
            yield f"{source} asks {one['url']} every {one['jsonData']['timeInterval']}, {config} scrapes every {interval}"
    home = services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    if not home.startswith(provider["options"]["path"] + "/") or not (folder / "boards" / home.rsplit("/", 1)[1]).exists():
        yield f"the first board is not there: {home}"
