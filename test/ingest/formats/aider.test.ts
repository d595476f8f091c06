/** Histories that Aider writes in Markdown. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { importFiles } from '../../../ingest/files/import.ts';
import { memoryLog } from '../support/memory-log.ts';
import { type Data, read } from './support/convert.ts';

const chat = (...lines: readonly string[]) =>
  ['# aider chat started at 2026-11-02 08:00:00', '', ...lines, ''].join('\n');

async function imported(text: string) {
  const folder = mkdtempSync(join(tmpdir(), 'troupe-aider-'));
  try {
    const file = join(folder, '.aider.chat.history.md');
    writeFileSync(file, text);
    const memory = memoryLog();
    const { format, episodes, calls, errors } = await importFiles([file], memory);
    return { counts: [format, episodes, calls], errors, events: memory.events };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

describe('aider', () => {
  it('reads each chat of a file, by the lines of user, program and model', async () => {
    const first = chat(
      '> Model: made-up with diff edit format  ',
      '',
      '#### Which tide?  ',
      '#### Today?  ',
      '',
      '# High',
      '',
      'At 9.',
    );
    const { counts, errors, events } = await imported(`\n${first}\n${chat('#### Bye.  ', '', 'Bye.')}`);
    expect([counts, errors]).toEqual([['aider', 2, 2], []]);
    const of = (name: string) => events.filter((event) => event.name === name).map(({ data }) => data as Data);
    expect(of('message.sent').map(({ content }) => content)).toEqual(['Which tide?\nToday?', 'Bye.']);
    expect(of('generation.completed')).toMatchObject([
      { response_model: 'made-up', choices: [{ content: '# High\n\nAt 9.' }] },
      { choices: [{ content: 'Bye.' }] },
    ]);
    expect(of('generation.requested')).toEqual([]);
  });

  it('leaves lines of code in the answer that begin as those of the program do', () => {
    const code = ['```', '> quoted', '```'];
    const { of } = read('aider', chat('#### q  ', ...code, '> Applied edit to a.py  '));
    expect(of('generation.completed')).toMatchObject([{ choices: [{ content: code.join('\n') }] }]);
    expect(of('environment.observed')).toMatchObject([{ kind: 'program', content: 'Applied edit to a.py' }]);
  });

  it('sends the words of some commands to the model, and keeps the others as commands', () => {
    const { of } = read('aider', chat('#### /add a.py  ', '> Added a.py  ', '#### /ask Why?  ', 'So.'));
    expect(of('environment.observed').map(({ kind }) => kind)).toEqual(['command', 'program']);
    expect(of('message.sent')).toMatchObject([{ content: 'Why?' }]);
    expect(of('task.defined')).toMatchObject([{ query: 'Why?' }]);
  });

  it.each([
    [
      '812 sent, 9 received. Cost: $0.0012 message, $0.01 session.',
      { input_tokens: 812, output_tokens: 9, cost_usd: 0.0012 },
    ],
    ['2.3k sent, 158 received. Cost: $0.01 message, $0.01 session.', { output_tokens: 158, cost_usd: 0.01 }],
    ['900 sent, 3 cache hit, 7 received.', { input_tokens: 900, output_tokens: 7 }],
    ['2.3k sent, 1.1k received.', undefined],
  ])('takes of %s what is exact', (words, usage) => {
    const { of } = read('aider', chat('#### q  ', 'a', `> Tokens: ${words}  `));
    expect(of('generation.completed')[0]!.usage).toEqual(usage);
  });

  it('refuses a chat that is no text, and goes on behind it', async () => {
    const broken = Buffer.concat([
      Buffer.from(chat('#### q  ', 'a')),
      Buffer.from([0xff, 10]),
      Buffer.from(chat('#### r  ', 'b')),
    ]);
    const folder = mkdtempSync(join(tmpdir(), 'troupe-aider-'));
    writeFileSync(join(folder, 'history.md'), broken);
    const report = await importFiles([join(folder, 'history.md')], memoryLog());
    rmSync(folder, { recursive: true });
    expect(report).toMatchObject({ episodes: 1, errors: [{ line: 1, code: 'bad_json' }] });
  });
});
