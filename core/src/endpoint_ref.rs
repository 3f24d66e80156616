//! The grammar of endpoints on the command line and in claims: `[TYPE/][NS/]NAME`, or an address.
