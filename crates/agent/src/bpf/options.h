/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Options of sockets, by their numbers in the kernel's headers for programs.
 */
#ifndef FAIRWIND_AGENT_OPTIONS_H
#define FAIRWIND_AGENT_OPTIONS_H

enum { SOL_IP = 0, SOL_SOCKET = 1, SOL_TCP = 6, SOL_IPV6 = 41 };
enum { SO_SNDBUF = 7, SO_RCVBUF = 8, SO_PRIORITY = 12, SO_MAX_PACING_RATE = 47 };
enum { IP_TOS = 1, IPV6_TCLASS = 67 };
enum { TCP_WINDOW_CLAMP = 10, TCP_CONGESTION = 13 };
/* TCP_BPF_SOCK_OPS_CB_FLAGS, a name that the headers have since Linux 6.10. */
enum { CALLBACK_FLAGS = 1008 };
/* Programs at a control group see options up to this size, bytes. */
enum { PAGE = 4096 };

#endif
