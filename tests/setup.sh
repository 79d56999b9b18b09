#!/bin/sh
# Makes sure that there is a ZooKeeper for the tests; see --help.
set -eu

DEBIAN_JAR=/usr/share/java/zookeeper.jar
DEBIAN_LOGGER=/usr/share/java/slf4j-simple.jar
CURATOR_JAR=/usr/share/java/curator-recipes.jar
GO_ZOOKEEPER=/usr/share/gocode/src/github.com/samuel/go-zookeeper/zk/lock.go
PROJECT=$(dirname "$0")/..
VENV=$PROJECT/$(cat "$PROJECT/tests/interop/place")/venv

# The versions that --versions unpacks, and the pyspark releases that contain them.
OLDEST=3.6.3 OLDEST_PYSPARK=3.5.3
NEWEST=3.9.5 NEWEST_PYSPARK=4.3.0
# The jars that a server needs, including those for TLS (Netty) and for its log.
SERVER_JARS='zookeeper zookeeper-jute audience-annotations metrics-core snappy-java commons-io
    slf4j-api log4j-slf4j2-impl log4j-api log4j-core netty-buffer netty-codec netty-codec-base
    netty-common netty-handler netty-resolver netty-transport netty-transport-classes-epoll
    netty-transport-native-unix-common netty-transport-native-epoll'

usage() {
    cat <<TEXT
Usage: tests/setup.sh [--interop] [--bench] [--versions] [--help]

Makes sure that the tests find a ZooKeeper to run against. Does nothing, quickly
and silently, if there is one:

  ZOOKEEPER_CONNECT  is set: the tests use that running server. Tests that stop
                     or pause servers still need one of the following.
  ZOOKEEPER_HOME     is an unpacked Apache ZooKeeper release, and there is a
                     Java runtime (JAVA_HOME or PATH).
  otherwise          the packages libzookeeper-java, libslf4j-java and a Java
                     runtime. On Debian and Ubuntu they are installed with
                     apt-get, as root or by sudo.

No service is started: the tests start their own servers.

--interop also installs the other clients that tests/interop runs beside this
library, if they are missing: the packages libcurator-recipes-java and
default-jdk-headless (Curator), golang-go and golang-github-samuel-go-zookeeper-dev
(go-zookeeper), and kazoo from PyPI, with python3-venv, below target.

--bench does the same, and also installs the other programs that benches/locks
measures: the packages redis-server and etcd-server. The benches start processes of their own;
with systemd, Debian's packages also start services, which are not used.

--versions unpacks other versions of ZooKeeper, if they are missing, for
ZOOKEEPER_HOME: target/zookeeper-$OLDEST and target/zookeeper-$NEWEST. The jars
come from PyPI, in the package pyspark: 300 to 450 MB are downloaded for each,
and 10 MB kept. It requires python3-venv, which is installed as well.
TEXT
}

fail() {
    echo "tests/setup.sh: $*" >&2
    exit 1
}

have() {
    command -v "$1" >/dev/null 2>&1
}

have_java() {
    if [ -n "${JAVA_HOME:-}" ]; then
        [ -x "$JAVA_HOME/bin/java" ]
    else
        have java
    fi
}

have_release() {
    for jar in "$1"/lib/zookeeper-*.jar "$1"/zookeeper-*.jar; do
        [ ! -e "$jar" ] || return 0
    done
    return 1
}

have_packages() {
    [ -e "$DEBIAN_JAR" ] && [ -e "$DEBIAN_LOGGER" ] && have_java
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif have sudo; then
        sudo "$@"
    else
        fail "installing packages requires root or sudo; see --help"
    fi
}

# Installs packages. `env` sets the variable, because sudo would drop it.
install() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@"
}

setup_zookeeper() {
    if [ -n "${ZOOKEEPER_CONNECT:-}" ]; then
        return
    fi
    if [ -n "${ZOOKEEPER_HOME:-}" ]; then
        have_release "$ZOOKEEPER_HOME" || fail "no zookeeper-*.jar in ZOOKEEPER_HOME ($ZOOKEEPER_HOME)"
        have_java || fail "no Java: put java on PATH or set JAVA_HOME"
        return
    fi
    if have_packages; then
        return
    fi
    if [ -n "${JAVA_HOME:-}" ] && ! have_java; then
        fail "JAVA_HOME ($JAVA_HOME) has no bin/java"
    fi
    have apt-get || fail "this is not Debian or Ubuntu: install Java, unpack an Apache ZooKeeper" \
        "release and set ZOOKEEPER_HOME to it, or set ZOOKEEPER_CONNECT to a running server"
    install libzookeeper-java libslf4j-java default-jre-headless
    have_packages || fail "the packages are installed, but $DEBIAN_JAR, $DEBIAN_LOGGER or java is missing"
}

have_javac() {
    [ -x "${JAVA_HOME:-}/bin/javac" ] || have javac
}

# Whether the tests' own virtual environment exists and has pip.
have_venv() {
    "$VENV/bin/python" -m pip --version >/dev/null 2>&1
}

setup_venv() {
    have_venv && return
    if ! python3 -c 'import ensurepip' 2>/dev/null; then
        have apt-get || fail "this is not Debian or Ubuntu; install by hand: Python 3 with venv and pip"
        install python3-venv
    fi
    python3 -m venv "$VENV"
}

pip() {
    "$VENV/bin/python" -m pip --quiet --disable-pip-version-check "$@"
}

have_kazoo() {
    "$VENV/bin/python" -c 'import kazoo' 2>/dev/null
}

setup_interop() {
    packages=
    [ -e "$CURATOR_JAR" ] && [ -e "$DEBIAN_LOGGER" ] || packages="$packages libcurator-recipes-java libslf4j-java"
    have_javac || packages="$packages default-jdk-headless"
    have go || packages="$packages golang-go"
    [ -e "$GO_ZOOKEEPER" ] || packages="$packages golang-github-samuel-go-zookeeper-dev"
    if [ -n "$packages" ]; then
        have apt-get || fail "this is not Debian or Ubuntu; install by hand:$packages"
        # shellcheck disable=SC2086 # a list
        install $packages
    fi
    if ! have_kazoo; then
        setup_venv
        # From version 2.7.1 on, kazoo's locks accept patterns for the node names of other clients.
        pip install 'kazoo>=2.7.1' || fail "cannot install kazoo; is PyPI reachable?"
        have_kazoo || fail "kazoo is installed in $VENV, but cannot be imported"
    fi
}

setup_bench() {
    packages=
    have redis-server || packages="$packages redis-server"
    have etcd || packages="$packages etcd-server"
    if [ -n "$packages" ]; then
        have apt-get || fail "this is not Debian or Ubuntu; install by hand:$packages"
        # shellcheck disable=SC2086 # a list
        install $packages
    fi
}

# Unpacks the jars of a server from the file $1, a release of pyspark, into the directory $2.
unpack_jars() {
    # shellcheck disable=SC2086 # a list
    names=$(printf '|%s' $SERVER_JARS)
    list=$(tar -tzf "$1" | grep -E "/deps/jars/(${names#|})-[0-9][^/]*\.jar\$")
    # shellcheck disable=SC2086 # a list
    tar -xzf "$1" -C "$2" --strip-components 3 $list
}

setup_release() {
    version=$1 pyspark=$2 home=$PROJECT/target/zookeeper-$1
    have_release "$home" && return
    setup_venv
    mkdir -p "$PROJECT/target"
    # The jars are unpacked in a temporary directory, which gets its final name when it is complete.
    unpacked=$(mktemp -d "$home.XXXXXX")
    trap 'rm -rf "$unpacked"' EXIT
    trap 'exit 1' HUP INT TERM
    echo "unpacking ZooKeeper $version from pyspark $pyspark .."
    pip download --no-deps --no-binary pyspark --dest "$unpacked" "pyspark==$pyspark" ||
        fail "cannot download pyspark $pyspark, which has ZooKeeper $version; is PyPI reachable?"
    mkdir "$unpacked/home" "$unpacked/home/lib" "$unpacked/home/conf"
    unpack_jars "$unpacked/pyspark-$pyspark.tar.gz" "$unpacked/home/lib"
    [ -e "$unpacked/home/lib/zookeeper-$version.jar" ] || fail "pyspark $pyspark has no ZooKeeper $version"
    cat >"$unpacked/home/conf/log4j2.properties" <<'TEXT'
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss.SSS} [%t] %p %c{1} - %m%n%ex
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
TEXT
    mv "$unpacked/home" "$home"
    rm -rf "$unpacked"
    trap - EXIT HUP INT TERM
}

setup_versions() {
    setup_release "$OLDEST" "$OLDEST_PYSPARK"
    setup_release "$NEWEST" "$NEWEST_PYSPARK"
}

interop=
bench=
versions=
for argument in "$@"; do
    case $argument in
        --interop) interop=yes ;;
        --bench) interop=yes bench=yes ;;
        --versions) versions=yes ;;
        -h | --help)
            usage
            exit
            ;;
        *) fail "unknown argument '$argument'; see --help" ;;
    esac
done

setup_zookeeper
[ -z "$interop" ] || setup_interop
[ -z "$bench" ] || setup_bench
[ -z "$versions" ] || setup_versions
