/**
 * A log of Inspect AI as an `.eval` file, read from inspect_ai 0.3.285 (PyPI), log/_recorders/eval.py: a ZIP archive with `header.json`
 * and a member for each sample. A run that was stopped has `_journal/start.json` in the place of its header.
 */
import { type FileHandle, open } from 'node:fs/promises';
import type { Refusal } from '../../errors.ts';
import { isRecord } from '../events/json.ts';
import { logOfSample } from '../formats/benchmarks/inspect.ts';
import { type FileRecord, MAX_DOCUMENT_BYTES, parsePiece, problem } from './parse-piece.ts';
import { BadZip, readMember, type ZipMember, zipMembers } from './zip.ts';

const HEADERS = ['header.json', '_journal/start.json'];
const SAMPLE = /^samples\/.+_epoch_\d+\.json$/;
const CHUNKED = /^samples\/.+_epoch_\d+\/sample\.json$/;

/** A record for each sample: a log with that sample alone. `line` is the number of the sample in the archive. */
export async function* readEvalArchive(path: string): AsyncGenerator<FileRecord> {
  const file = await open(path, 'r');
  try {
    const { members, cut } = await zipMembers(file);
    const header = await headerOf(file, members);
    if (header === null) {
      const expected = 'an .eval archive of Inspect AI with a header.json; unpack any other archive first';
      yield refused(1, 0, { code: 'unknown_format', field: '', expected, got: namesOf(members) });
      return;
    }
    let line = 0;
    for (const member of members) {
      const { name } = member;
      if (SAMPLE.test(name)) yield await sampleOf(file, member, ++line, header);
      else if (CHUNKED.test(name)) yield refused(++line, member.at, chunked(name));
    }
    if (cut) {
      const expected = 'an archive with its list of members at its end; what stands before the cut was read';
      yield refused(line + 1, (await file.stat()).size, problem('bad_shape', expected, 'an archive that was cut off'));
    }
  } finally {
    await file.close();
  }
}

async function sampleOf(file: FileHandle, member: ZipMember, line: number, header: unknown): Promise<FileRecord> {
  const record = await jsonOf(file, member, line);
  if (record.refusal) return { ...record, refusal: { ...record.refusal, field: member.name } };
  return { ...record, value: logOfSample(header, record.value) };
}

async function headerOf(file: FileHandle, members: readonly ZipMember[]): Promise<unknown> {
  for (const name of HEADERS) {
    const member = members.find((one) => one.name === name);
    const record = member ? await jsonOf(file, member, 1) : null;
    if (isRecord(record?.value)) return record.value;
  }
  return null;
}

async function jsonOf(file: FileHandle, member: ZipMember, line: number): Promise<FileRecord> {
  const end = member.at + member.packed;
  try {
    const raw = await readMember(file, member, MAX_DOCUMENT_BYTES);
    const record = parsePiece({ line, end, raw, size: raw.length }, MAX_DOCUMENT_BYTES);
    return record ?? refused(line, end, problem('bad_json', 'one JSON value', 'nothing'));
  } catch (error) {
    if (!(error instanceof BadZip)) throw error;
    return refused(line, end, problem('bad_shape', 'a member of the archive that can be read', error.message));
  }
}

const refused = (line: number, end: number, refusal: Refusal): FileRecord => ({
  line,
  end,
  raw: Buffer.alloc(0),
  refusal,
});

const chunked = (name: string): Refusal => ({
  code: 'bad_shape',
  field: name,
  expected: 'a sample in one member; write the log as JSON with inspect log convert',
  got: 'a sample in chunks',
});

const namesOf = (members: readonly ZipMember[]): string =>
  `an archive with ${members.length} members${members.length > 0 ? `, the first ${members[0]!.name.slice(0, 60)}` : ''}`;
