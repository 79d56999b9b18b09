#!/bin/sh
# Makes sure that the tests find a ZooKeeper to run against; see --help.
set -eu

DEBIAN_JAR=/usr/share/java/zookeeper.jar
DEBIAN_LOGGER=/usr/share/java/slf4j-simple.jar

usage() {
    cat <<'TEXT'
Usage: tests/setup.sh [--help]

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
        fail "installing packages takes root or sudo; or set ZOOKEEPER_HOME or ZOOKEEPER_CONNECT"
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

for argument in "$@"; do
    case $argument in
        -h | --help)
            usage
            exit
            ;;
        *) fail "unknown argument '$argument'; see --help" ;;
    esac
done

setup_zookeeper
