import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parquetReadObjects } from 'hyparquet';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { nestedStreams } from '../../store/datasets/arrow.ts';
import { layoutNamed } from '../../store/datasets/export.ts';
import { counter } from '../../store/datasets/layouts/counter.ts';
import { turnsOf } from '../../store/datasets/layouts/turn.ts';
import { parquetOf } from '../../store/datasets/parquet.ts';
import { openDataset } from '../../store/datasets/read.ts';
import { bytesIn } from '../support/bytes.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { TEMPLATES } from '../trainer/chat-templates.ts';
import { document, type Shell, warmShell } from './support/troupe.ts';

/** Members that are not in the order of the alphabet, and numbers that JavaScript writes otherwise. */
const ASKED = '{"to": "Rome", "days": 2.0, "at": {"z": 9007199254740993, "10": 1, "2": [1e3, -0]}}';
const COMPACT = ASKED.replaceAll(/(?<=[,:]) /g, '');
const TOOL =
  '{"type": "function", "function": {"name": "book", "parameters": {"type": "object", "properties": {"to": {"type": "string"}}}}}';

/** A chat that ends with a call of a tool and `then`; `tools` and the arguments as JSON. */
const chat = (tools: string, given: string, then = ''): string =>
  `{"messages": [{"role": "user", "content": "Book it."}, {"role": "assistant", "content": "", "tool_calls": [{"id": "call_001", "type": "function", "function": {"name": "book", "arguments": ${given}}}]}${then}], "tools": ${tools}}\n`;
const DONE =
  ', {"role": "tool", "content": "booked", "tool_call_id": "call_001"}, {"role": "assistant", "content": "Done."}';

describe('what a source writes as objects and as text', () => {
  let database: TestDatabase;
  let at: Shell;
  const path = (name: string) => join(at.folder, name);
  const done = async (...args: string[]) => {
    const ended = await at.run([...args, '--json']);
    expect(ended.code, ended.err).toBe(0);
    return document(ended);
  };
  beforeAll(async () => {
    database = await freshDatabase();
    at = warmShell({ DATABASE_URL: database.url });
    writeFileSync(path('chat.jsonl'), chat(JSON.stringify(`[${TOOL}]`), ASKED, DONE));
    await done('import', path('chat.jsonl'));
    writeFileSync(path('booked.json'), '{"name": "booked"}');
    await done('dataset', 'freeze', path('booked.json'));
    const words = Array(20)
      .fill(`think tools tool_call ${chat(`[${TOOL}]`, ASKED)}`)
      .join('');
    writeFileSync(path('words.txt'), words);
    const { source } = TEMPLATES.find(({ name }) => name === 'Qwen3')!;
    writeFileSync(path('model.json'), JSON.stringify({ chat_template: source }));
    const size = ['--hidden', '16', '--layers', '1', '--heads', '2', '--context', '1024'];
    await done(
      'model',
      'new',
      '--dir',
      path('model'),
      '--text',
      path('words.txt'),
      '--config',
      path('model.json'),
      ...size,
    );
  });
  afterAll(async () => {
    await at.remove();
    await database.close();
  });

  it('arguments are learnt in the order and numbers of their object, and tools that are JSON text are definitions', async () => {
    const { rows } = await done('dataset', 'mask', 'booked', '--model', path('model'), '--rows', '5');
    type Parts = { readonly answer: readonly { readonly learnt: boolean; readonly text: string }[] };
    const texts = rows.map(({ parts }: { parts: Parts }) =>
      parts.answer.map(({ learnt, text }) => (learnt ? `⟦${text}⟧` : text)).join(''),
    );
    const call = `<tool_call>\n{"name": "book", "arguments": ${ASKED}}\n</tool_call>`;
    const [called, ended] = texts[0].includes('booked') ? [texts[1], texts[0]] : texts;
    expect(called).toMatch(/⟦[^⟧]*<tool_call>/);
    expect(called).toContain(call);
    expect(ended).toContain(call);
    for (const text of texts) expect(text).toMatch(/<tools>\n\{"[^<]*"name": "book"[^<]*\}\n<\/tools>/);
  });

  it('traj.tool_calls shows them in the same order, too', async () => {
    const { rows } = await database.db.query('select arguments::text, arguments_raw from traj.tool_calls');
    expect(rows).toEqual([{ arguments: ASKED, arguments_raw: ASKED }]);
  });

  it.each([
    ['adp', COMPACT],
    ['anthropic', COMPACT],
    ['atif', COMPACT],
    ['axolotl', JSON.stringify(ASKED)],
    ['llama-factory-sft', JSON.stringify(COMPACT).slice(1, -1)],
    ['openai-sft', JSON.stringify(ASKED)],
    ['prime-rl-sft', JSON.stringify(ASKED)],
  ])('the layout %s holds the arguments as they were', async (layout, written) => {
    mkdirSync(path('out'), { recursive: true });
    const out = path(`out/${layout}`);
    await done('dataset', 'export', 'booked', '--layout', layout, '--out', out);
    const bytes = readFileSync(join(out, 'train.jsonl'));
    expect(bytes.toString('utf8')).toContain(written);
  });

  it.each([
    ['trl-sft', COMPACT],
    ['verl-sft', COMPACT],
  ])('the columns of %s hold them, too', async (layout, written) => {
    const datasets = path('home/datasets');
    const dataset = await openDataset(join(datasets, readdirSync(datasets).find((name) => !name.startsWith('.'))!));
    const turns = turnsOf(dataset.rows(), 'step', counter());
    const about = { name: 'booked', leftOut: counter(), notHeld: counter() };
    const [laid] = layoutNamed(layout).files([{ split: 'train', turns }], about);
    if (laid?.kind !== 'parquet') throw new Error('expected Parquet');
    // The reader knows no zstd.
    const bytes = await bytesIn(parquetOf(nestedStreams(laid.shapes, laid.rows), { codec: 'snappy' }));
    const rows = await parquetReadObjects({ file: new Uint8Array(bytes).buffer });
    expect(rows.flatMap((row) => Object.values(row)).join()).toContain(written);
  });

  it('train sft learns the same of tools in a list and of tools in a text', async () => {
    writeFileSync(path('list.jsonl'), chat(`[${TOOL}]`, ASKED));
    writeFileSync(path('text.jsonl'), chat(JSON.stringify(`[${TOOL}]`), ASKED));
    writeFileSync(path('none.jsonl'), chat('""', ASKED));
    writeFileSync(
      path('sorted.jsonl'),
      chat(`[${TOOL}]`, '{"at": {"2": [1000, 0], "10": 1, "z": 9007199254740992}, "days": 2, "to": "Rome"}'),
    );
    const lossOf = async (file: string) => {
      const train = ['train', 'sft', '--model', path('model'), '--data', path(`${file}.jsonl`)];
      const flags = ['--out', path(`trained-${file}`), '--steps', '1', '--batch', '1'];
      return (await done(...train, ...flags)).losses[0] as number;
    };
    const list = await lossOf('list');
    expect(await lossOf('text')).toBe(list);
    expect(await lossOf('none')).not.toBe(list);
    expect(await lossOf('sorted')).not.toBe(list);
  });
});
