# The two commands are `make demo` and `make test`. Each first installs what is missing.

OUT ?= out
CARGO := scripts/cargo
DENY := target/tools/bin/cargo-deny
CARGO_DENY := PATH="$(CURDIR)/target/tools/bin:$$PATH" $(CARGO) deny --locked
REPRODUCE := run --package fairwind --bin fairwind
DCCS := $(CARGO) $(REPRODUCE) --profile optimised -- reproduce dccs --out $(OUT)/dccs
WEB100 := $(CARGO) $(REPRODUCE) --release -- reproduce web100-dummynet --out $(OUT)/web100-dummynet

.PHONY: help demo test fuzz proftpd lint formats advisories docs fresh bench experiments experiments-lab validation background faults kernels dccs dccs-lab drsftp demonstration

help:
	@echo "Try it, and test it:"
	@echo "make demo             move one file over a shared path in several ways; table and report in OUT/demo"
	@echo "make test             run all tests; the last lines count those skipped here, and say why"
	@echo
	@echo "Change it (CONTRIBUTING.md):"
	@echo "make lint             check formats, lints, licences and duplicates of packages"
	@echo "make fuzz             try new inputs on what reads foreign input, for MINUTES=10"
	@echo "make faults           run every control on 1,000 random paths, with checks of its arithmetic and memory (20 minutes)"
	@echo "make advisories       look up known weaknesses of packages (fetches the database)"
	@echo "make proftpd          build ProFTPD's module mod_fairwind"
	@echo "make docs             build the pages of docs/ as a book in OUT/book"
	@echo "make fresh            run make demo and make test in fresh Debian 12 and 13 and Ubuntu 24.04 (root, hours)"
	@echo
	@echo "Measure (docs/measurements):"
	@echo "make bench            speed and memory of the simulator (some minutes)"
	@echo "make experiments      figures and tables of the Web100-Dummynet thesis, in the simulator (half a minute)"
	@echo "make experiments-lab  the same in both engines (root, 40 minutes)"
	@echo "make dccs             transfers of the thesis on dynamic congestion control, in the simulator (20 minutes)"
	@echo "make dccs-lab         the same, scaled down, by servers and advisor on the running kernel (root, 50 minutes)"
	@echo "make drsftp           transfers of the drsFTP paper, on the running kernel (root, an hour and a half)"
	@echo "make demonstration     the demonstration on five days and the long path, on the running kernel and in the simulator (root, 45 minutes)"
	@echo "make background       background transfers: what they take, and what others keep"
	@echo "make validation       simulator and kernel compared, cell by cell (root, 18 minutes)"
	@echo "make kernels          what works on other kernels, in virtual machines (10 minutes, fetches 300 MB)"
	@echo
	@echo "OUT=DIR               where results go (default: out)"

# Root runs it on the kernel (two and a half minutes), others in the simulator; ARGS is passed to the program
# (ARGS="--quick --seed 7"). Without link-time optimisation, which takes as long as everything else.
DEMO := --profile optimised --locked --offline --package fairwind --bin fairwind
demo:
	@scripts/setup demo
	$(CARGO) build $(DEMO)
	$(CARGO) run --quiet $(DEMO) -- demo --out $(OUT)/demo --force $(ARGS)

test:
	@scripts/setup test
	@scripts/test

fuzz:
	@scripts/setup test
	@scripts/fuzz $(or $(MINUTES),10)

proftpd:
	@scripts/setup test
	@scripts/proftpd-module

lint: formats $(DENY)
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) fetch --locked --quiet
	$(CARGO_DENY) --offline check bans licenses sources

formats:
	@scripts/setup lint
	$(CARGO) fmt --all --check
	find cc docs crates proftpd -name '*.[ch]' -print0 | xargs -0 clang-format --dry-run --Werror

advisories: $(DENY)
	$(CARGO_DENY) fetch db
	$(CARGO_DENY) --offline check advisories

# cargo-deny is built once, below target.
$(DENY):
	@scripts/setup build
	$(CARGO) install --quiet --locked --debug --root target/tools cargo-deny@0.20.2

# mdBook is built once, below target.
MDBOOK := target/tools/bin/mdbook
docs: $(MDBOOK)
	$(MDBOOK) build --dest-dir $(abspath $(OUT))/book

$(MDBOOK):
	@scripts/setup build
	$(CARGO) install --quiet --locked --debug --root target/tools --no-default-features --features search mdbook@0.5.4

# ROOTS="debian-12 ubuntu-24.04" measures these systems alone, USERS=root that user alone; PAGE=FILE receives the
# table. More: scripts/fresh --help.
fresh:
	@scripts/fresh $(if $(PAGE),--page $(PAGE)) $(addprefix --user ,$(USERS)) $(ROOTS)

bench:
	@scripts/setup build
	$(CARGO) bench --package fairwind --bench dumbbell

experiments:
	@scripts/setup build
	$(WEB100) $(ARGS)

# These and the following targets keep every result, so they may be interrupted; PAGE=FILE puts tables and
# figures into the page, ARGS is passed to `fairwind reproduce` (ARGS=--help).
experiments-lab:
	@scripts/setup build
	$(WEB100) --engine both $(if $(PAGE),--page $(PAGE)) $(ARGS)

# ARGS="--scale 0.01" takes half a minute, ARGS="--recorded FILE" adds a recorded series.
dccs:
	@scripts/setup build
	nice -n 10 $(DCCS) $(if $(PAGE),--page $(PAGE)) $(ARGS)

# Without ProFTPD (scripts/setup test unpacks it), or with ARGS="--only server=fairwind", it takes half as long.
dccs-lab:
	@scripts/setup build
	$(DCCS) --engine lab $(if $(PAGE),--page $(PAGE)) $(ARGS)

# ARGS="--only path=95 --only size=1,8,128" takes ten minutes.
drsftp:
	@scripts/setup build
	$(CARGO) $(REPRODUCE) --release -- reproduce drsftp --out $(OUT)/drsftp $(if $(PAGE),--page $(PAGE)) $(ARGS)

demonstration:
	@scripts/setup demo
	$(CARGO) $(REPRODUCE) --release -- reproduce demonstration --engine both --out $(OUT)/demonstration $(if $(PAGE),--page $(PAGE)) $(ARGS)

# ARGS="--engine sim" runs the simulator alone.
validation:
	@scripts/setup build
	$(CARGO) $(REPRODUCE) --release -- reproduce validation --out $(OUT)/validation $(if $(PAGE),--page $(PAGE)) $(ARGS)

# ARGS="--quick" takes minutes, ARGS="--engine both" runs 60 cells with each control on the kernel besides.
background:
	@scripts/setup build
	$(CARGO) $(REPRODUCE) --profile optimised -- reproduce background --out $(OUT)/background $(if $(PAGE),--page $(PAGE)) $(ARGS)

# The C of the controls has the compiler's checks, and so a folder of its own. ARGS="--quick" takes 100 paths,
# ARGS="--only control=bbr" one control.
faults:
	@scripts/setup build
	FAIRWIND_SANITIZE=undefined,address $(CARGO) $(REPRODUCE) --profile optimised --target-dir target/faults -- reproduce random-paths --out $(OUT)/random-paths $(if $(PAGE),--page $(PAGE)) $(ARGS)

# KERNELS="6.1 6.12-btf" selects kernels (scripts/try-kernels).
kernels:
	@scripts/setup build
	@scripts/setup kernels
	$(CARGO) build --release --package fairwind --bin fairwind
	@mkdir -p $(OUT)
	scripts/try-kernels $(KERNELS) > $(OUT)/kernels.md
	scripts/try-kernel-tls > $(OUT)/kernel-tls.txt
