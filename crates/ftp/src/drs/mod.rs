//! Dynamic right-sizing: buffers of a data connection that follow the bandwidth-delay product of its path.
