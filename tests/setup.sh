#!/bin/sh
# Makes sure that the tests find a ZooKeeper to run against; see --help.
set -eu

DEBIAN_JAR=/usr/share/java/zookeeper.jar
DEBIAN_LOGGER=/usr/share/java/slf4j-simple.jar
CURATOR_JAR=/usr/share/java/curator-recipes.jar
GO_ZOOKEEPER=/usr/share/gocode/src/github.com/samuel/go-zookeeper/zk/lock.go
PROJECT=$(dirname "$0")/..
KAZOO_VENV=$PROJECT/$(cat "$PROJECT/tests/interop/place")/venv

usage() {
    cat <<'TEXT'
Usage: tests/setup.sh [--interop] [--bench] [--help]

Makes sure that the tests find a ZooKeeper to run against. Does nothing, quickly
and silently, when there is one:

  ZOOKEEPER_CONNECT  is set: the tests use that running server. Tests that stop
                     or pause servers still need one of the following.
  ZOOKEEPER_HOME     is an unpacked Apache ZooKeeper release, and there is a
                     Java runtime (JAVA_HOME or PATH).
  otherwise          the packages libzookeeper-java, libslf4j-java and a Java
                     runtime. On Debian and Ubuntu they are installed with
                     apt-get, as root or by sudo.

No service is started: the tests start servers of their own.

--interop also installs the other clients that tests/interop runs beside this
library, as far as they are missing: the packages libcurator-recipes-java and
default-jdk-headless (Curator), golang-go and golang-github-samuel-go-zookeeper-dev
(go-zookeeper), and kazoo from PyPI, by python3-venv, below target.

--bench does the same, and also installs what benches/locks measures besides: the
packages redis-server and etcd-server. The benches start processes of their own;
where systemd runs, Debian's packages also start services, which nothing uses.
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
    for jar in "$ZOOKEEPER_HOME"/lib/zookeeper-*.jar "$ZOOKEEPER_HOME"/zookeeper-*.jar; do
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
        fail "installing packages takes root or sudo; see --help"
    fi
}

# Installs packages; the environment is passed by `env`, since sudo drops it.
install() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@"
}

setup_zookeeper() {
    if [ -n "${ZOOKEEPER_CONNECT:-}" ]; then
        return
    fi
    if [ -n "${ZOOKEEPER_HOME:-}" ]; then
        have_release || fail "no zookeeper-*.jar in ZOOKEEPER_HOME ($ZOOKEEPER_HOME)"
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

have_kazoo() {
    "$KAZOO_VENV/bin/python" -c 'import kazoo' 2>/dev/null
}

setup_interop() {
    packages=
    [ -e "$CURATOR_JAR" ] && [ -e "$DEBIAN_LOGGER" ] || packages="$packages libcurator-recipes-java libslf4j-java"
    have_javac || packages="$packages default-jdk-headless"
    have go || packages="$packages golang-go"
    [ -e "$GO_ZOOKEEPER" ] || packages="$packages golang-github-samuel-go-zookeeper-dev"
    have_kazoo || python3 -c 'import ensurepip' 2>/dev/null || packages="$packages python3-venv"
    if [ -n "$packages" ]; then
        have apt-get || fail "this is not Debian or Ubuntu; install by hand:$packages"
        # shellcheck disable=SC2086 # a list
        install $packages
    fi
    if ! have_kazoo; then
        python3 -m venv "$KAZOO_VENV"
        # Since 2.7.1 its locks can be told what others call their nodes.
        "$KAZOO_VENV/bin/python" -m pip install -q --disable-pip-version-check 'kazoo>=2.7.1'
        have_kazoo || fail "kazoo is installed in $KAZOO_VENV, but cannot be imported"
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

interop=
bench=
for argument in "$@"; do
    case $argument in
        --interop) interop=yes ;;
        --bench) interop=yes bench=yes ;;
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
