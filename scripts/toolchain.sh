# Sourced, with `root` set to the checkout: finds the Rust to use, and checks that it is new enough.

least_rust=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$root/Cargo.toml")

# at_least LEAST VERSION
at_least() { [ -n "$2" ] && [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n1)" = "$1" ]; }

rust_version() { rustc --version 2>/dev/null | sed -n 's/^rustc \([0-9]*\.[0-9]*\).*/\1/p'; }

is_new_enough() { at_least "$least_rust" "$(rust_version)" && cargo --version >/dev/null 2>&1; }

# Puts a cargo and rustc that are new enough first in PATH: those found there, rustup's, those that Ubuntu
# installs beside an older default, or rustup's stable toolchain. If there are none, returns false and leaves
# PATH unchanged.
use_rust() {
	local path=$PATH folder
	for folder in "" "${CARGO_HOME:-$HOME/.cargo}/bin" $(printf '%s\n' /usr/lib/rust-*/bin | sort -rV); do
		PATH=${folder:+$folder:}$path
		is_new_enough && return
	done
	PATH=$path:${CARGO_HOME:-$HOME/.cargo}/bin
	if RUSTUP_TOOLCHAIN=stable is_new_enough; then
		# For this run only: the user's choice stays.
		export RUSTUP_TOOLCHAIN=stable
		return
	fi
	PATH=$path
	return 1
}
