// One write port and one read port; what is read appears after the clock edge and stays until the next read.
// Replace this file by the macro of your process.

module eie_sram #(
    parameter WIDTH = 64,
    parameter DEPTH = 16384,
    parameter ADDRESS = 14
) (
    input wire clk,
    input wire write,
    input wire [ADDRESS-1:0] write_address,
    input wire [WIDTH-1:0] write_data,
    input wire read,
    input wire [ADDRESS-1:0] read_address,
    output reg [WIDTH-1:0] read_data
);
    reg [WIDTH-1:0] memory [0:DEPTH-1];

    always @(posedge clk) begin
        if (write)
            memory[write_address] <= write_data;
        if (read)
            read_data <= memory[read_address];
    end
endmodule
