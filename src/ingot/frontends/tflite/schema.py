"""The TFLite format's tables, operators and element types: the numbers of schema version 3.

A line of `TABLES` is a table: its fields in the order of their slots, `name:kind`, or with `=default` behind;
"-" stands for slots that nothing here reads. A union takes two slots, of which the first says which of its
members follows.
"""

from __future__ import annotations

from ingot.frontends.tflite.flatbuffer import SCALARS, Field

IDENTIFIER = b"TFL3"
"""Bytes 4 to 8 of a file."""


def _words(text: str) -> list[str]:
    return text.split()


_TABLES = """
BlockwiseQuantization: scales:int zero_points:int block_size:int
MultiAxisQuantization: scales:int zero_points:int block_size:int quantized_dimensions:[int]
QuantizationParameters: min:[float] max:[float] scale:[float] zero_point:[long] details_type:ubyte
    details:table quantized_dimension:int
Int32Vector: values:[int]
Uint16Vector: values:[ushort]
Uint8Vector: values:[ubyte]
DimensionMetadata: format:byte dense_size:int array_segments_type:ubyte array_segments:table
    array_indices_type:ubyte array_indices:table
SparsityParameters: traversal_order:[int] block_map:[int] dim_metadata:[DimensionMetadata]
Tensor: shape:[int] type:byte buffer:uint name:string quantization:QuantizationParameters
    is_variable:bool sparsity:SparsityParameters shape_signature:[int] has_rank:bool variant_tensors:-
    external_buffer:uint
Conv2DOptions: padding:byte stride_w:int stride_h:int fused_activation_function:byte
    dilation_w_factor:int=1 dilation_h_factor:int=1 quantized_bias_type:byte
Conv3DOptions: padding:byte stride_d:int stride_w:int stride_h:int fused_activation_function:byte
    dilation_d_factor:int=1 dilation_w_factor:int=1 dilation_h_factor:int=1
Pool2DOptions: padding:byte stride_w:int stride_h:int filter_width:int filter_height:int
    fused_activation_function:byte
DepthwiseConv2DOptions: padding:byte stride_w:int stride_h:int depth_multiplier:int
    fused_activation_function:byte dilation_w_factor:int=1 dilation_h_factor:int=1
SVDFOptions: rank:int fused_activation_function:byte asymmetric_quantize_inputs:bool
RNNOptions: fused_activation_function:byte asymmetric_quantize_inputs:bool
SequenceRNNOptions: time_major:bool fused_activation_function:byte asymmetric_quantize_inputs:bool
BidirectionalSequenceRNNOptions: time_major:bool fused_activation_function:byte merge_outputs:bool
    asymmetric_quantize_inputs:bool
FullyConnectedOptions: fused_activation_function:byte weights_format:byte keep_num_dims:bool
    asymmetric_quantize_inputs:bool quantized_bias_type:byte
SoftmaxOptions: beta:float
ConcatenationOptions: axis:int fused_activation_function:byte
AddOptions: fused_activation_function:byte pot_scale_int16:bool=1
MulOptions: fused_activation_function:byte
L2NormOptions: fused_activation_function:byte
LocalResponseNormalizationOptions: radius:int bias:float alpha:float beta:float
LSTMOptions: fused_activation_function:byte cell_clip:float proj_clip:float kernel_type:byte
    asymmetric_quantize_inputs:bool
UnidirectionalSequenceLSTMOptions: fused_activation_function:byte cell_clip:float proj_clip:float
    time_major:bool asymmetric_quantize_inputs:bool diagonal_recurrent_tensors:bool
BidirectionalSequenceLSTMOptions: fused_activation_function:byte cell_clip:float proj_clip:float
    merge_outputs:bool time_major:bool=1 asymmetric_quantize_inputs:bool
ResizeBilinearOptions: new_height:int new_width:int align_corners:bool half_pixel_centers:bool
ResizeNearestNeighborOptions: align_corners:bool half_pixel_centers:bool
CallOptions: subgraph:uint
ReshapeOptions: new_shape:[int]
SpaceToDepthOptions: block_size:int
DepthToSpaceOptions: block_size:int
SubOptions: fused_activation_function:byte pot_scale_int16:bool=1
DivOptions: fused_activation_function:byte
EmbeddingLookupSparseOptions: combiner:byte
GatherOptions: axis:int batch_dims:int
ReducerOptions: keep_dims:bool
SqueezeOptions: squeeze_dims:[int]
SplitOptions: num_splits:int
SplitVOptions: num_splits:int
StridedSliceOptions: begin_mask:int end_mask:int ellipsis_mask:int new_axis_mask:int shrink_axis_mask:int
    offset:bool
CastOptions: in_data_type:byte out_data_type:byte
ArgMaxOptions: output_type:byte
ArgMinOptions: output_type:byte
TransposeConvOptions: padding:byte stride_w:int stride_h:int fused_activation_function:byte
    quantized_bias_type:byte
SparseToDenseOptions: validate_indices:bool
ShapeOptions: out_type:byte
FakeQuantOptions: min:float max:float num_bits:int narrow_range:bool
PackOptions: values_count:int axis:int
OneHotOptions: axis:int
UnpackOptions: num:int axis:int
LeakyReluOptions: alpha:float
MirrorPadOptions: mode:byte
UniqueOptions: idx_out_type:byte=2
ReverseSequenceOptions: seq_dim:int batch_dim:int
IfOptions: then_subgraph_index:int else_subgraph_index:int
CallOnceOptions: init_subgraph_index:int
WhileOptions: cond_subgraph_index:int body_subgraph_index:int
BatchMatMulOptions: adj_x:bool adj_y:bool asymmetric_quantize_inputs:bool
CumsumOptions: exclusive:bool reverse:bool
VarHandleOptions: container:string shared_name:string
RandomOptions: seed:long seed2:long
BucketizeOptions: boundaries:[float]
GeluOptions: approximate:bool
ReduceWindowOptions: reduce_function:int
OperatorCode: deprecated_builtin_code:byte custom_code:string version:int=1 builtin_code:int
Operator: opcode_index:uint inputs:[int] outputs:[int] builtin_options_type:ubyte builtin_options:table
    custom_options:[ubyte] custom_options_format:byte mutating_variable_inputs:[bool] intermediates:[int]
    large_custom_options_offset:ulong large_custom_options_size:ulong builtin_options_2_type:ubyte
    builtin_options_2:table debug_metadata_index:int=-1
SubGraph: tensors:[Tensor] inputs:[int] outputs:[int] operators:[Operator] name:string
    debug_metadata_index:int=-1
Buffer: data:[ubyte] offset:ulong size:ulong
Metadata: name:string buffer:uint
TensorMap: name:string tensor_index:uint
SignatureDef: inputs:[TensorMap] outputs:[TensorMap] signature_key:string deprecated_tag:string
    subgraph_index:uint
Model: version:uint operator_codes:[OperatorCode] subgraphs:[SubGraph] description:string
    buffers:[Buffer] metadata_buffer:[int] metadata:[Metadata] signature_defs:[SignatureDef]
    external_buffer_groups:- external_buffers:-
"""

_OPERATORS = """
ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE EMBEDDING_LOOKUP
FLOOR FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION LOGISTIC
LSH_PROJECTION LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX
SPACE_TO_DEPTH SVDF TANH CONCAT_EMBEDDINGS SKIP_GRAM CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD
UNIDIRECTIONAL_SEQUENCE_RNN GATHER BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE
UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT LOG_SOFTMAX
DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM ARG_MAX MINIMUM LESS NEG PADV2 GREATER
GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE TILE EXPAND_DIMS EQUAL NOT_EQUAL
LOG SUM SQRT RSQRT SHAPE POW ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK LOGICAL_OR ONE_HOT
LOGICAL_AND LOGICAL_NOT UNPACK REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL FLOOR_MOD RANGE
RESIZE_NEAREST_NEIGHBOR LEAKY_RELU SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL REVERSE_V2 ADD_N
GATHER_ND COS WHERE RANK ELU REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND HARD_SWISH IF
WHILE NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM BATCH_MATMUL
PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D IMAG REAL COMPLEX_ABS
HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL CONV_3D_TRANSPOSE VAR_HANDLE
READ_VARIABLE ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL BUCKETIZE RANDOM_UNIFORM MULTINOMIAL
GELU DYNAMIC_UPDATE_SLICE RELU_0_TO_1 UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_SUM
ATAN2 UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR RIGHT_SHIFT STABLEHLO_LOGISTIC STABLEHLO_ADD
STABLEHLO_DIVIDE STABLEHLO_MULTIPLY STABLEHLO_MAXIMUM STABLEHLO_RESHAPE STABLEHLO_CLAMP
STABLEHLO_CONCATENATE STABLEHLO_BROADCAST_IN_DIM STABLEHLO_CONVOLUTION STABLEHLO_SLICE
STABLEHLO_CUSTOM_CALL STABLEHLO_REDUCE STABLEHLO_ABS STABLEHLO_AND STABLEHLO_COSINE STABLEHLO_EXPONENTIAL
STABLEHLO_FLOOR STABLEHLO_LOG STABLEHLO_MINIMUM STABLEHLO_NEGATE STABLEHLO_OR STABLEHLO_POWER
STABLEHLO_REMAINDER STABLEHLO_RSQRT STABLEHLO_SELECT STABLEHLO_SUBTRACT STABLEHLO_TANH STABLEHLO_SCATTER
STABLEHLO_COMPARE STABLEHLO_CONVERT STABLEHLO_DYNAMIC_SLICE STABLEHLO_DYNAMIC_UPDATE_SLICE STABLEHLO_PAD
STABLEHLO_IOTA STABLEHLO_DOT_GENERAL STABLEHLO_REDUCE_WINDOW STABLEHLO_SORT STABLEHLO_WHILE
STABLEHLO_GATHER STABLEHLO_TRANSPOSE DILATE STABLEHLO_RNG_BIT_GENERATOR REDUCE_WINDOW STABLEHLO_COMPOSITE
STABLEHLO_SHIFT_LEFT STABLEHLO_CBRT STABLEHLO_CASE
"""
OPERATORS = _words(_OPERATORS)
"""The builtin operators, each by its number."""

_OPTIONS = """
Conv2DOptions DepthwiseConv2DOptions ConcatEmbeddingsOptions LSHProjectionOptions Pool2DOptions
SVDFOptions RNNOptions FullyConnectedOptions SoftmaxOptions ConcatenationOptions AddOptions L2NormOptions
LocalResponseNormalizationOptions LSTMOptions ResizeBilinearOptions CallOptions ReshapeOptions
SkipGramOptions SpaceToDepthOptions EmbeddingLookupSparseOptions MulOptions PadOptions GatherOptions
BatchToSpaceNDOptions SpaceToBatchNDOptions TransposeOptions ReducerOptions SubOptions DivOptions
SqueezeOptions SequenceRNNOptions StridedSliceOptions ExpOptions TopKV2Options SplitOptions
LogSoftmaxOptions CastOptions DequantizeOptions MaximumMinimumOptions ArgMaxOptions LessOptions
NegOptions PadV2Options GreaterOptions GreaterEqualOptions LessEqualOptions SelectOptions SliceOptions
TransposeConvOptions SparseToDenseOptions TileOptions ExpandDimsOptions EqualOptions NotEqualOptions
ShapeOptions PowOptions ArgMinOptions FakeQuantOptions PackOptions LogicalOrOptions OneHotOptions
LogicalAndOptions LogicalNotOptions UnpackOptions FloorDivOptions SquareOptions ZerosLikeOptions
FillOptions BidirectionalSequenceLSTMOptions BidirectionalSequenceRNNOptions
UnidirectionalSequenceLSTMOptions FloorModOptions RangeOptions ResizeNearestNeighborOptions
LeakyReluOptions SquaredDifferenceOptions MirrorPadOptions AbsOptions SplitVOptions UniqueOptions
ReverseV2Options AddNOptions GatherNdOptions CosOptions WhereOptions RankOptions ReverseSequenceOptions
MatrixDiagOptions QuantizeOptions MatrixSetDiagOptions HardSwishOptions IfOptions WhileOptions
DepthToSpaceOptions NonMaxSuppressionV4Options NonMaxSuppressionV5Options ScatterNdOptions
SelectV2Options DensifyOptions SegmentSumOptions BatchMatMulOptions CumsumOptions CallOnceOptions
BroadcastToOptions Rfft2dOptions Conv3DOptions HashtableOptions HashtableFindOptions
HashtableImportOptions HashtableSizeOptions VarHandleOptions ReadVariableOptions AssignVariableOptions
RandomOptions BucketizeOptions GeluOptions DynamicUpdateSliceOptions UnsortedSegmentProdOptions
UnsortedSegmentMaxOptions UnsortedSegmentMinOptions UnsortedSegmentSumOptions ATan2Options SignOptions
BitcastOptions BitwiseXorOptions RightShiftOptions
"""
OPTIONS = ["", *_words(_OPTIONS)]
"""The members of the union of options."""

_TYPES = """
FLOAT32 FLOAT16 INT32 UINT8 INT64 STRING BOOL INT16 COMPLEX64 INT8 FLOAT64 COMPLEX128 UINT64 RESOURCE
VARIANT UINT32 UINT16 INT4 BFLOAT16 INT2 UINT4 FLOAT8_E4M3FN FLOAT8_E5M2
"""
TYPES = _words(_TYPES)
"""Element types, each by its number."""


def _fields(line: str) -> tuple[str, dict[str, Field]]:
    name, _, rest = line.partition(":")
    fields = {}
    for slot, word in enumerate(rest.split()):
        label, _, kind = word.partition(":")
        kind, _, default = kind.partition("=")
        inner, table = kind.strip("[]"), ""
        if inner not in (*SCALARS, "string", "table", "-"):
            table, kind = inner, "[table]" if kind.startswith("[") else "table"
        fields[label] = Field(label, slot, kind, table, int(default or 0))
    return name, fields


TABLES = dict(map(_fields, _TABLES.replace("\n    ", " ").strip().splitlines()))
"""Fields by table and name."""
