/** Files of other kinds under the name of a model: each must be called what it is and not be opened. */
import { deflateRawSync, gzipSync } from 'node:zlib';
import { type Entry, entry } from './entry.ts';

const latin = (text: string): Uint8Array => Buffer.from(text, 'latin1');
const padded = (text: string, bytes = 4096): Uint8Array => Buffer.concat([latin(text), Buffer.alloc(bytes)]);

/** A zip of one stored or deflated file, with what its reader needs first. */
function zip(name: string, content: Uint8Array, packed = false): Uint8Array {
  const data = packed ? deflateRawSync(content) : content;
  const head = Buffer.alloc(30);
  head.writeUInt32LE(0x04034b50, 0);
  head.writeUInt16LE(20, 4);
  head.writeUInt16LE(packed ? 8 : 0, 8);
  head.writeUInt32LE(data.length, 18);
  head.writeUInt32LE(content.length, 22);
  head.writeUInt16LE(name.length, 26);
  return Buffer.concat([head, latin(name), data]);
}

/** A tar of one file. */
function tar(name: string, content: Uint8Array): Uint8Array {
  const head = Buffer.alloc(512);
  head.write(name);
  head.write('0000644\0', 100);
  head.write(content.length.toString(8).padStart(11, '0'), 124);
  head.write('ustar\x0000', 257);
  return Buffer.concat([head, content, Buffer.alloc(1024)]);
}

/** Would run a program when it is loaded: protocol 2 and the text protocol 0. */
const pickle = '\x80\x02cposix\nsystem\nq\x00X\x04\x00\x00\x00trueq\x01\x85q\x02Rq\x03.';
const textPickle = "cposix\nsystem\n(S'true'\ntR.";
const NO = 'model_unsupported';

export const otherCorpus: readonly Entry[] = [
  entry('pickle', latin(pickle), NO, /a pickle/),
  entry('pickle of protocol 4', latin('\x80\x04\x95\x1d\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix.'), NO, /a pickle/),
  entry('pickle of protocol 0', latin(textPickle), NO, /a pickle/),
  entry('PyTorch file', zip('archive/data.pkl', latin(pickle)), NO, /a PyTorch file/),
  entry('PyTorch file, deflated', zip('model/data.pkl', latin(pickle), true), NO, /a PyTorch file/),
  entry('zip', zip('notes.txt', latin('x')), NO, /a zip archive/),
  entry('zip bomb', zip('zeros', Buffer.alloc(10_000_000), true), NO, /a zip archive/),
  entry('7z with a pickle', padded('7z\xbc\xaf\x27\x1c\x00\x04'), NO, /a 7z archive/),
  entry('rar', padded('Rar!\x1a\x07\x01\x00'), NO, /a rar archive/),
  entry('tar with a way out', tar('../../etc/passwd', latin('x')), NO, /a tar archive/),
  entry('gzip', gzipSync(latin(pickle)), NO, /gzip/),
  entry('gzip bomb', gzipSync(Buffer.alloc(100_000_000)), NO, /gzip/),
  entry('bzip2', padded('BZh91AY&SY'), NO, /bzip2/),
  entry('xz', padded('\xfd7zXZ\x00'), NO, /xz/),
  entry('zstd', padded('\x28\xb5\x2f\xfd'), NO, /zstd/),
  entry('HDF5', padded('\x89HDF\r\n\x1a\n'), NO, /HDF5/),
  entry('GGUF', padded('GGUF\x03\x00\x00\x00'), NO, /GGUF/),
  entry('NumPy', padded('\x93NUMPY\x01\x00'), NO, /NumPy/),
  entry('TensorFlow Lite', padded('\x1c\x00\x00\x00TFL3'), NO, /TensorFlow Lite/),
  entry('Parquet', padded('PAR1'), NO, /Parquet/),
  entry('program', padded('\x7fELF\x02\x01\x01'), NO, /program/),
  entry('script', latin('#!/bin/sh\ntrue\n'), NO, /program/),
  entry(
    'pointer of Git LFS',
    latin(`version https://git-lfs.github.com/spec/v1\noid sha256:${'0'.repeat(64)}\nsize 12\n`),
    NO,
    /Git LFS/,
  ),
  entry('web page', latin('<!DOCTYPE html><html><title>404</title></html>'), NO, /web page/),
];
