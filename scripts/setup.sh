#!/usr/bin/env bash
# Build .venv with Whence, editable, and the tools to work on it. Safe to run again.
# Where something is missing that we cannot install, it says so in one sentence and exits with 1.
set -eu
cd "$(dirname "$0")/.."

say() { echo "setup: $*"; }
die() { echo "setup: $*" >&2; exit 1; }

recent() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
can_make_venv() { "$1" -c 'import venv, ensurepip' 2>/dev/null; }

# A name on the PATH may be a launcher without a Python behind it: only one that runs counts.
find_python() {
    local name
    for name in python3.11 python3.12 python3.13 python3; do
        if recent "$name"; then echo "$name"; return; fi
    done
    die "no Python 3.11 or newer was found; install python3 (3.11 or newer) and run this again"
}

# Debian ships Python without the parts that build virtual environments.
install_venv_module() {
    local python=$1 package
    package="$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        die "$python cannot build virtual environments; install the package $package and run this again"
    fi
    say "installing $package"
    {
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package"
    } >/dev/null 2>&1 || die "apt-get could not install $package; install it by hand and run this again"
    can_make_venv "$python" || die "$python cannot build virtual environments even with $package; install another Python"
}

make_venv() {
    local python
    python="$(find_python)"
    can_make_venv "$python" || install_venv_module "$python"
    say "creating .venv with $("$python" --version)"
    "$python" -m venv --clear .venv || die "$python could not create .venv; see the lines above"
}

install() {
    .venv/bin/python -m pip install --quiet "$@" >>.venv/setup.log 2>&1 ||
        die "pip could not install what Whence needs; connect to a Python package index and run this again (pip's own words: .venv/setup.log)"
}

java_version() { java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -1; }

# Spark runs on a Java machine; 17 is the oldest it takes.
require_java() {
    local package=openjdk-17-jre-headless
    [ "$(java_version)" -ge 17 ] 2>/dev/null && return
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        die "Spark needs Java 17 or newer; install the package $package and run this again"
    fi
    say "installing $package"
    {
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package"
    } >/dev/null 2>&1 || die "apt-get could not install $package; install Java 17 or newer by hand and run this again"
}

require_java
{ recent .venv/bin/python && .venv/bin/python -m pip --version >/dev/null 2>&1; } || make_venv
: >.venv/setup.log
say "installing Whence and its tools (a minute or two the first time)"
install --upgrade pip
install --editable '.[dev,local,spark]'
say "ready: .venv/bin/whence"
