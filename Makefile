# The two commands are `make demo` and `make test`. Each first installs what is missing.

OUT ?= out
CARGO := scripts/cargo
DENY := target/tools/bin/cargo-deny
CARGO_DENY := PATH="$(CURDIR)/target/tools/bin:$$PATH" $(CARGO) deny --locked
REPRODUCE := run --package fairwind --bin fairwind
DCCS := $(CARGO) $(REPRODUCE) --profile optimised -- reproduce dccs --out $(OUT)/dccs
WEB100 := $(CARGO) $(REPRODUCE) --release -- reproduce web100-dummynet --out $(OUT)/web100-dummynet

.PHONY: help demo test fuzz lint formats advisories docs fresh bench experiments experiments-lab validation kernels dccs dccs-lab drsftp

help:
	@echo "make demo             one file over a shared path, moved three ways: build, run, table and report"
	@echo "make test             all tests; those that cannot run here are skipped, and the last lines say why"
	@echo "make fuzz             new inputs for what reads foreign input, for MINUTES=10, for those who change something"
	@echo "make lint             formats and lints, for those who change something"
	@echo "make advisories       what is known of weaknesses in the packages of others (fetches the database)"
	@echo "make docs             these pages as a book in OUT/book"
	@echo "make fresh            both commands in fresh Debian 12 and 13 and Ubuntu 24.04, as root and as a user (root, hours)"
	@echo "make bench            speed and memory of the simulator (some minutes)"
	@echo "make experiments      every figure and table of the thesis, and the tables of its page in docs/"
	@echo "make experiments-lab  the same in the simulator and on the running kernel (root, 40 minutes)"
	@echo "make dccs             the transfers of the thesis on dynamic congestion control (20 minutes)"
	@echo "make dccs-lab         the same scaled down, with the real server and advisor on the running kernel (root, 25 minutes)"
	@echo "make drsftp           the transfers of drsFTP, on the running kernel (root, an hour and a half)"
	@echo "make validation       the simulator held to the running kernel, cell by cell (root, 18 minutes)"
	@echo "make kernels          what works on other kernels, in virtual machines (10 minutes, 300 MB fetched)"
	@echo
	@echo "OUT=DIR               where all of them write results (default: out)"

# Root runs it on the kernel (two and a half minutes), others in the simulator; ARGS is passed to the program
# (ARGS="--quick --seed 7"). Without link-time optimisation, which takes as long as everything else.
DEMO := --profile optimised --locked --offline --package fairwind --bin fairwind
demo:
	@scripts/setup build
	$(CARGO) build $(DEMO)
	$(CARGO) run --quiet $(DEMO) -- demo --out $(OUT)/demo --force $(ARGS)

test:
	@scripts/setup test
	@scripts/test

fuzz:
	@scripts/setup test
	@scripts/fuzz $(or $(MINUTES),10)

lint: formats $(DENY)
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO_DENY) --offline check bans licenses sources

formats:
	@scripts/setup lint
	$(CARGO) fmt --all --check
	find cc docs crates -name '*.[ch]' -print0 | xargs -0 clang-format --dry-run --Werror

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

dccs-lab:
	@scripts/setup build
	$(DCCS) --engine lab $(if $(PAGE),--page $(PAGE)) $(ARGS)

# ARGS="--only path=95 --only size=1,8,128" takes ten minutes.
drsftp:
	@scripts/setup build
	$(CARGO) $(REPRODUCE) --release -- reproduce drsftp --out $(OUT)/drsftp $(if $(PAGE),--page $(PAGE)) $(ARGS)

# ARGS="--engine sim" runs the simulator alone.
validation:
	@scripts/setup build
	$(CARGO) $(REPRODUCE) --release -- reproduce validation --out $(OUT)/validation $(if $(PAGE),--page $(PAGE)) $(ARGS)

# KERNELS="6.1 6.12-btf" selects kernels (scripts/try-kernels).
kernels:
	@scripts/setup build
	@scripts/setup kernels
	$(CARGO) build --release --package fairwind --bin fairwind
	@mkdir -p $(OUT)
	scripts/try-kernels $(KERNELS) > $(OUT)/kernels.md
