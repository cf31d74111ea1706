/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the compiler calls where the C of a control has no defined behaviour: it says where, and ends the program.
 * The names are those of the UndefinedBehaviorSanitizer's library, which need not be installed then. All that they are
 * given begins with the place.
 */
#include <stdio.h>
#include <stdlib.h>

struct place {
	const char *file;
	unsigned int line;
	unsigned int column;
};

static _Noreturn void undefined(const struct place *place, const char *what)
{
	fprintf(stderr, "%s:%u:%u: undefined behaviour: %s\n", place->file, place->line,
		place->column, what);
	abort();
}

#define CHECK(name, what)                                                \
	_Noreturn void __ubsan_handle_##name(const struct place *place); \
	_Noreturn void __ubsan_handle_##name(const struct place *place)  \
	{                                                                \
		undefined(place, what);                                  \
	}

CHECK(add_overflow_abort, "a sum of signed integers overflows")
CHECK(sub_overflow_abort, "a difference of signed integers overflows")
CHECK(mul_overflow_abort, "a product of signed integers overflows")
CHECK(negate_overflow_abort, "the negative of a signed integer overflows")
CHECK(divrem_overflow_abort, "a division by zero, or one that overflows")
CHECK(shift_out_of_bounds_abort, "a shift by too much, or of a negative integer")
CHECK(out_of_bounds_abort, "an index beyond its array")
CHECK(type_mismatch_v1_abort, "a pointer that is null, not aligned, or to too small an object")
CHECK(pointer_overflow_abort, "a pointer overflows")
CHECK(alignment_assumption_abort, "a pointer that is not aligned")
CHECK(load_invalid_value_abort, "a value that its type does not have")
CHECK(float_cast_overflow_abort, "a number too large for its type")
CHECK(vla_bound_not_positive_abort, "an array of no length")
CHECK(nonnull_arg_abort, "a null pointer as an argument")
CHECK(nonnull_return_v1_abort, "a null pointer returned")
CHECK(invalid_builtin_abort, "zero has no first bit")
CHECK(missing_return, "a function without its value")
CHECK(builtin_unreachable, "what cannot be reached is")
