/** Logs and batches of single calls, and rows of answers that were preferred. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { importFiles } from '../../../ingest/files/import.ts';
import { memoryLog } from '../support/memory-log.ts';

async function imported(...files: readonly (readonly unknown[])[]) {
  const folder = mkdtempSync(join(tmpdir(), 'troupe-calls-'));
  const paths = files.map((lines, i) => {
    writeFileSync(join(folder, `${i}.jsonl`), lines.map((line) => JSON.stringify(line)).join('\n'));
    return join(folder, `${i}.jsonl`);
  });
  const memory = memoryLog();
  const report = await importFiles(paths, memory);
  const data = (name: string) => memory.events.filter((event) => event.name === name).map((event) => event.data);
  return { report, data };
}

const request = (text: string) => ({
  custom_id: 'r',
  method: 'POST',
  url: '/v1/responses',
  body: { model: 'm', instructions: 'Be brief.', input: text },
});
const result = {
  custom_id: 'r',
  response: {
    status_code: 200,
    body: {
      id: 'resp',
      model: 'm',
      output: [{ type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'a' }] }],
    },
  },
  error: null,
};

describe('Results of a batch', () => {
  it('meet the request of their id, in whichever file and order', async () => {
    const { report, data } = await imported([result], [request('q')]);
    expect([report.format, report.episodes, report.calls, report.errors]).toEqual(['model-batches', 1, 1, []]);
    expect(data('generation.requested')).toMatchObject([
      {
        input: [
          { role: 'system', content: 'Be brief.' },
          { role: 'user', content: 'q' },
        ],
      },
    ]);
  });

  it('have no input where two requests of one id ask differently, and requests without a result are counted', async () => {
    const { report, data } = await imported(
      [result],
      [request('q'), request('other'), { ...request('q'), custom_id: 's' }],
    );
    expect([report.episodes, data('generation.requested')]).toEqual([1, []]);
    expect(report.unread_lines).toEqual([{ format: 'model-batches', type: 'request without a result', lines: 1 }]);
  });
});

describe('An invocation of Bedrock', () => {
  it('has results of tools as messages of tools, and what failed in place of an answer', async () => {
    const block = { toolResult: { toolUseId: 't', content: [{ text: 'no port' }], status: 'error' } };
    const messages = [
      { role: 'user', content: [{ text: 'q' }] },
      { role: 'assistant', content: [{ toolUse: { toolUseId: 't', name: 'tide', input: {} } }] },
      { role: 'user', content: [block] },
    ];
    const { data } = await imported([
      {
        schemaType: 'ModelInvocationLog',
        requestId: 'x',
        modelId: 'm',
        input: { inputBodyJson: { messages } },
        errorCode: 'ThrottlingException',
      },
    ]);
    expect(data('tool.returned')).toMatchObject([{ status: 'error', output: 'no port' }]);
    expect(data('generation.completed')).toMatchObject([{ choices: [], error: 'ThrottlingException' }]);
  });
});

describe('A row of preferences', () => {
  it('that has more than one answer after the prompt is refused by its field', async () => {
    const [user, answer] = [
      { role: 'user', content: 'q' },
      { role: 'assistant', content: 'a' },
    ];
    const { report } = await imported([{ prompt: [user], chosen: [answer, user, answer], rejected: [answer] }]);
    expect(report.errors).toMatchObject([{ field: 'chosen', code: 'bad_shape' }]);
  });

  it('without a prompt shares what both answers begin with', async () => {
    const [user, other] = [
      { role: 'user', content: 'q' },
      { role: 'assistant', content: 'b' },
    ];
    const { data } = await imported([{ chosen: [user, { role: 'assistant', content: 'a' }], rejected: [user, other] }]);
    expect(data('generation.completed')).toMatchObject([
      {
        choices: [
          { content: 'a', chosen: true },
          { content: 'b', chosen: false },
        ],
      },
    ]);
  });
});
