#!/usr/bin/env bash
# Installs what was built into an empty folder, moves it, and uses it from there: the programs, the library by find_package() and by
# pkg-config. usage: find_package_test.sh CMAKE SOURCE_DIR BUILD_DIR
set -euo pipefail
cmake=$1 source=$2 build=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

DESTDIR="$folder/stage" "$cmake" --install "$build" --prefix /opt/nest >/dev/null
mv "$folder/stage/opt/nest" "$folder/nest"
prefix=$folder/nest
(cd "$prefix" && find . -type f | sort)

"$prefix/bin/nest" --version

"$cmake" -S "$source/examples/cpp" -B "$folder/build" -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
"$cmake" --build "$folder/build"
bash "$source/tests/install/example_test.sh" "$folder/build/plan"

if command -v pkg-config >/dev/null; then
  flags=$(PKG_CONFIG_PATH="$(dirname "$(find "$prefix" -name nest.pc)")" pkg-config --cflags --libs nest)
  eval g++ "$source/examples/cpp/plan.cc" -o "$folder/plan" $flags
  bash "$source/tests/install/example_test.sh" "$folder/plan"
fi
