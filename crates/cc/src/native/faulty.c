/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Faults as a control could have them, for the test that they are found. */

int fairwind_faulty_quotient(int dividend, int divisor);
int fairwind_faulty_shift(int by);
int fairwind_faulty_sum(int one, int other);

int fairwind_faulty_quotient(int dividend, int divisor)
{
	return dividend / divisor;
}

int fairwind_faulty_shift(int by)
{
	return 1 << by;
}

int fairwind_faulty_sum(int one, int other)
{
	return one + other;
}
