// Runs the array under Verilator: commands from standard input, results to standard output.
//
// A command is 16 bytes, little-endian: data (8), address (4), PE (2), space (1), flags (1).
// Flags: 1 for all PEs, 2 to read an accumulator, 4 to wait until the array has finished.
// Each read prints the accumulator, each wait the cycles that the array counted.

#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "Veie_array.h"
#include "verilated.h"

namespace {

enum Flag : std::uint8_t { ALL = 1, READ = 2, WAIT = 4 };

const std::uint64_t PATIENCE = UINT64_C(1) << 32;

void tick(Veie_array &array)
{
    array.clk = 1;
    array.eval();
    array.clk = 0;
    array.eval();
}

bool finish(Veie_array &array)
{
    for (std::uint64_t n = 0; array.running; n++) {
        if (n == PATIENCE)
            return false;
        tick(array);
    }
    std::printf("%" PRIu32 "\n", array.cycles);
    return true;
}

} // namespace

int main(int argc, char **argv)
{
    VerilatedContext context;
    context.commandArgs(argc, argv);
    Veie_array array{&context};
    array.rst = 1;
    tick(array);
    array.rst = 0;

    unsigned char command[16];
    while (std::fread(command, sizeof command, 1, stdin) == 1) {
        std::uint64_t data;
        std::uint32_t address;
        std::uint16_t pe;
        std::memcpy(&data, command, sizeof data);
        std::memcpy(&address, command + 8, sizeof address);
        std::memcpy(&pe, command + 12, sizeof pe);
        const std::uint8_t flags = command[15];
        array.data = data;
        array.address = address;
        array.pe = pe;
        array.space = command[14];
        array.to_all = (flags & ALL) != 0;
        array.write = (flags & READ) == 0;
        if (flags & READ) {
            array.eval();
            std::printf("%d\n", static_cast<int>(array.result << (32 - BITS)) >> (32 - BITS));
            continue;
        }
        tick(array);
        array.write = 0;
        if ((flags & WAIT) && !finish(array)) {
            std::fprintf(stderr, "the array does not finish\n");
            return 1;
        }
    }
    array.final();
    return 0;
}
