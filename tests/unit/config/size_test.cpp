#include "config/size.h"

#include <gtest/gtest.h>

using namespace kvplane;

TEST(Size, reads_bare_numbers_as_bytes) {
    EXPECT_EQ(parse_size("0"), 0u);
    EXPECT_EQ(parse_size("4096"), 4096u);
    EXPECT_EQ(parse_size("512B"), 512u);
    EXPECT_EQ(parse_size("18446744073709551615"), 18446744073709551615u);
}

TEST(Size, tells_powers_of_1000_from_powers_of_1024) {
    EXPECT_EQ(parse_size("8k"), 8000u);
    EXPECT_EQ(parse_size("32K"), 32768u);
    EXPECT_EQ(parse_size("8kB"), 8000u);
    EXPECT_EQ(parse_size("8KB"), 8000u);
    EXPECT_EQ(parse_size("8KiB"), 8192u);
    EXPECT_EQ(parse_size("4MiB"), 4194304u);
    EXPECT_EQ(parse_size("4M"), 4194304u);
    EXPECT_EQ(parse_size("4m"), 4000000u);
    EXPECT_EQ(parse_size("4MB"), 4000000u);
    EXPECT_EQ(parse_size("2GiB"), 2147483648u);
    EXPECT_EQ(parse_size("2 GiB"), 2147483648u);
    EXPECT_EQ(parse_size("3TiB"), 3298534883328u);
    EXPECT_EQ(parse_size("3t"), 3000000000000u);
}

TEST(Size, reads_decimals) {
    EXPECT_EQ(parse_size("1.5GB"), 1500000000u);
    EXPECT_EQ(parse_size("0.5KiB"), 512u);
    EXPECT_EQ(parse_size("1.000001m"), 1000001u);
    EXPECT_EQ(parse_size("0.1KiB"), 102u);                 // 102.4
    EXPECT_EQ(parse_size("0.999999TiB"), 1099510528264u);  // 1099511627776 - 1099511.6
}

TEST(Size, refuses_what_is_no_size) {
    for (const char* text : {"",
                             " ",
                             "k",
                             "B",
                             "1.",
                             ".5k",
                             "1..5k",
                             "1.5.5k",
                             "-1",
                             "+1",
                             "1e3",
                             "1kk",
                             "1kib",
                             "1Ki",
                             "1kb",
                             "1X",
                             "1PiB",
                             "1 2",
                             "1  k",
                             " 1k",
                             "1k ",
                             "0x10",
                             "1,5GB",
                             "auto",
                             "1.0000001k",
                             "18446744073709551616",
                             "16777216TiB",
                             "99999999999999999999k"}) {
        EXPECT_EQ(parse_size(text), std::nullopt) << text;
    }
}

TEST(Size, reaches_the_last_size_that_fits_64_bits) {
    EXPECT_EQ(parse_size("16777215TiB"), 18446742974197923840u);
    EXPECT_EQ(parse_size("16777215.999999TiB"), 18446742974197923840u + 1099510528264u);
}

TEST(Size, is_written_for_people) {
    EXPECT_EQ(format_size(0), "0 B");
    EXPECT_EQ(format_size(1023), "1023 B");
    EXPECT_EQ(format_size(4194304), "4 MiB");
    EXPECT_EQ(format_size(1610612736), "1.5 GiB");
    EXPECT_EQ(format_size(18446744073709551615u), "16.0 EiB");
}
