/**
 * What a file is by its first bytes, whatever its name says. For refusals: "this is a PyTorch pickle" helps its reader,
 * "the header claims 7311696 bytes" does not. Nothing is ever opened because of what is found here.
 */

export type FileKind =
  | 'empty'
  | 'safetensors'
  | 'onnx'
  | 'pickle'
  | 'torch'
  | 'zip'
  | '7z'
  | 'rar'
  | 'tar'
  | 'gzip'
  | 'bzip2'
  | 'xz'
  | 'zstd'
  | 'lz4'
  | 'hdf5'
  | 'gguf'
  | 'ggml'
  | 'numpy'
  | 'tflite'
  | 'parquet'
  | 'lfs'
  | 'html'
  | 'json'
  | 'program'
  | 'unknown';

export type FileGuess = {
  readonly kind: FileKind;
  /** To be read after "it is": "a pickle of Python, which can run code when it is loaded". */
  readonly says: string;
  /** What to do about it, or null where nothing general helps. */
  readonly hint: string | null;
};

/** As many first bytes as `sniffFile` looks at. */
export const SNIFFED_BYTES = 1024;

const RESAVE =
  'Save it again as safetensors where you trust it, for example with transformers: model.save_pretrained(DIR).';
const UNPACK = 'Unpack it first and name the folder that holds config.json and model.safetensors.';

const SAYS: Readonly<Record<FileKind, readonly [says: string, hint: string | null]>> = {
  empty: ['empty', 'Fetch or save the file again.'],
  safetensors: ['a safetensors file', null],
  onnx: ['an ONNX model', null],
  pickle: ['a pickle of Python, which can run code when it is loaded', RESAVE],
  torch: ['a PyTorch file (a zip with a pickle in it), which can run code when it is loaded', RESAVE],
  zip: ['a zip archive', UNPACK],
  '7z': ['a 7z archive', UNPACK],
  rar: ['a rar archive', UNPACK],
  tar: ['a tar archive', UNPACK],
  gzip: ['compressed with gzip', UNPACK],
  bzip2: ['compressed with bzip2', UNPACK],
  xz: ['compressed with xz', UNPACK],
  zstd: ['compressed with zstd', UNPACK],
  lz4: ['compressed with lz4', UNPACK],
  hdf5: ['an HDF5 file, as Keras writes', RESAVE],
  gguf: ['a GGUF file, as llama.cpp reads', 'Use the safetensors files that the GGUF file was made from.'],
  ggml: ['a GGML file, as old versions of llama.cpp read', RESAVE],
  numpy: ['a NumPy array', RESAVE],
  tflite: ['a TensorFlow Lite model', RESAVE],
  parquet: ['a Parquet file', null],
  lfs: [
    'a pointer of Git LFS and not the file itself',
    'Say in the clone: git lfs pull, or download the file itself from its page.',
  ],
  html: ['a web page, probably the error page of a download', 'Download it again and look at what came.'],
  json: ['JSON text', null],
  program: ['a program, which is never run', null],
  unknown: ['none of the kinds of file that are known', null],
};

/** Names what begins with these bytes; the first `SNIFFED_BYTES` of a file are enough. */
export function sniffFile(bytes: Uint8Array): FileGuess {
  const kind = kindOf(bytes);
  const [says, hint] = SAYS[kind];
  return { kind, says, hint };
}

const MAGIC: readonly (readonly [FileKind, number, string])[] = [
  ['7z', 0, '7z\xbc\xaf\x27\x1c'],
  ['rar', 0, 'Rar!\x1a\x07'],
  ['tar', 257, 'ustar'],
  ['gzip', 0, '\x1f\x8b'],
  ['bzip2', 0, 'BZh'],
  ['xz', 0, '\xfd7zXZ\x00'],
  ['zstd', 0, '\x28\xb5\x2f\xfd'],
  ['lz4', 0, '\x04\x22\x4d\x18'],
  ['hdf5', 0, '\x89HDF\r\n\x1a\n'],
  ['gguf', 0, 'GGUF'],
  ['ggml', 0, 'lmgg'],
  ['ggml', 0, 'fmgg'],
  ['ggml', 0, 'tjgg'],
  ['numpy', 0, '\x93NUMPY'],
  ['tflite', 4, 'TFL3'],
  ['parquet', 0, 'PAR1'],
  ['lfs', 0, 'version https://git-lfs.github.com/spec/'],
  ['program', 0, '\x7fELF'],
  ['program', 0, 'MZ'],
  ['program', 0, '\xcf\xfa\xed\xfe'],
  ['program', 0, '\xca\xfe\xba\xbe'],
  ['program', 0, '#!'],
];

function kindOf(bytes: Uint8Array): FileKind {
  if (bytes.length === 0) return 'empty';
  // First, because the length of a header can begin like any of the marks below; theirs never continues like one.
  if (looksLikeSafetensors(bytes)) return 'safetensors';
  // One character a byte, so that offsets stay those of the file.
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.length, SNIFFED_BYTES)).toString('latin1');
  if (text.startsWith('PK\x03\x04') || text.startsWith('PK\x05\x06')) {
    return /data\.pkl|\/version|\.data\/serialization_id/.test(text) ? 'torch' : 'zip';
  }
  const known = MAGIC.find(([, at, magic]) => text.startsWith(magic, at));
  if (known) return known[0];
  if (
    (bytes[0] === 0x80 && bytes[1]! >= 2 && bytes[1]! <= 5) ||
    /^(c[a-z_][\w.]*\n\w+\n|\((dp?\d*\n|lp?\d*\n|I\d+\n|c\w+\n))/i.test(text)
  ) {
    return 'pickle';
  }
  if (/^\s*(<!doctype html|<html)/i.test(text)) return 'html';
  if (looksLikeOnnx(bytes)) return 'onnx';
  return /^(\xef\xbb\xbf)?\s*[{[]/.test(text) ? 'json' : 'unknown';
}

/** A header length that the format allows, and the brace its header begins with. */
function looksLikeSafetensors(bytes: Uint8Array): boolean {
  if (bytes.length < 9 || bytes[8] !== 0x7b) return false;
  return new DataView(bytes.buffer, bytes.byteOffset, 8).getBigUint64(0, true) <= 100_000_000n;
}

/** `ir_version` first, as every exporter writes it, then another field of ModelProto: a name (2 to 7), opsets (8) or the graph. */
function looksLikeOnnx(bytes: Uint8Array): boolean {
  return (
    bytes.length > 3 &&
    bytes[0] === 0x08 &&
    bytes[1]! > 0 &&
    bytes[1]! < 0x20 &&
    [0x12, 0x1a, 0x22, 0x28, 0x32, 0x3a, 0x42].includes(bytes[2]!)
  );
}
