/** Responses of a policy within a JSON Schema, or a call of a tool that is forced, in each interface. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Schema from 'typebox/schema';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { registeredPolicyServers } from '../../api/gateway/policy-servers.ts';
import { registerProcess } from '../../store/queue/jobs/processes.ts';
import { newModelDirectory } from '../../trainer/model/model-directory.ts';
import { CHATML_ROLES, CHATML_SPECIAL, CHATML_TEMPLATE } from '../../trainer/model/tokens/chatml.ts';
import { trainBpe } from '../../trainer/model/tokens/tokenizer-training.ts';
import { startInfer } from '../../trainer/sample/infer.ts';
import { connectInfer } from '../../trainer/sample/infer-client.ts';
import { Policy } from '../../trainer/sample/policy.ts';
import { freshDatabase } from '../support/database.ts';
import { tinyConfig } from '../trainer/tiny-checkpoint.ts';
import { post, type TestApp, testApp } from './support/app.ts';

let root: string;
let at: TestApp;
const ends: (() => unknown)[] = [];

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'troupe-constraint-'));
  const socket = join(root, 'infer.sock');
  const tokenizer = trainBpe(['{"sure": true}'], { vocabSize: 300, special: CHATML_SPECIAL, roles: CHATML_ROLES });
  const config = { ...tinyConfig, vocab_size: 300, max_position_embeddings: 4000 };
  const model = { config, tokenizer, chatTemplate: CHATML_TEMPLATE, seed: 1 };
  const { dir } = await newModelDirectory(join(root, 'model'), model, { durable: false });
  const infer = await startInfer({ socket, threads: 1 }, Policy.load);
  await infer.load({ dir, name: 'team' });
  const { db, close } = await freshDatabase();
  const leave = await registerProcess(db, { processId: 'p', role: 'infer', policy: 'team', address: socket });
  const policyServers = registeredPolicyServers(db, connectInfer);
  at = await testApp({ policyServers });
  ends.push(
    () => at.close(),
    leave,
    policyServers.close,
    () => infer.close(),
    close,
  );
});
afterAll(async () => {
  for (const end of ends) await end();
  await rm(root, { recursive: true, force: true });
});

const schema = {
  type: 'object',
  properties: { sure: { type: 'boolean' }, n: { type: ['integer', 'null'] } },
  required: ['sure', 'n'],
  additionalProperties: false,
};
const hello = [{ role: 'user', content: 'hello' }];
const call = async (path: string, body: object, episode: string) => {
  const answer = await post(at.app, { model: 'policy:team', seed: 3, ...body }, { 'troupe-episode': episode }, path);
  return { status: answer.statusCode, ...answer.json() };
};
const reasonOf = async (episode: string) => {
  await at.project();
  return (await at.db.query('select untrainable from traj.steps where episode_id = $1', [episode])).rows;
};

describe('JSON within a schema', () => {
  it.each([
    [
      '/v1/chat/completions',
      { messages: hello, response_format: { type: 'json_schema', json_schema: { name: 'x', schema } } },
    ],
    [
      '/v1/completions',
      { prompt: 'x', max_tokens: 200, response_format: { type: 'json_schema', json_schema: { schema } } },
    ],
    ['/v1/messages', { messages: hello, max_tokens: 200, output_config: { format: { type: 'json_schema', schema } } }],
    ['/v1/responses', { input: 'hello', text: { format: { type: 'json_schema', name: 'x', schema } } }],
  ])('at %s is what the policy answers, and the step says that it was constrained', async (path, body) => {
    const answer = await call(path, body, path);
    const text =
      answer.choices?.[0].message?.content ??
      answer.choices?.[0].text ??
      answer.content?.[0].text ??
      answer.output?.[0].content[0].text;
    expect(Schema.Check(schema, JSON.parse(text))).toBe(true);
    expect(await reasonOf(path)).toEqual([{ untrainable: 'constrained' }]);
  });

  it('of any form is an object', async () => {
    // A policy that has learnt nothing may write for ever; what it writes begins as an object.
    const body = { messages: hello, response_format: { type: 'json_object' }, max_tokens: 30 };
    const { choices } = await call('/v1/chat/completions', body, 'object');
    expect(choices[0].message.content).toMatch(/^\{("|\})/);
  });

  it('that cannot be enforced is refused with 400 and the keyword', async () => {
    const wrong = { type: 'object', properties: { a: { type: 'string', pattern: 'x' } }, required: ['a'] };
    const chat = { messages: hello, response_format: { type: 'json_schema', json_schema: { schema: wrong } } };
    expect(await call('/v1/chat/completions', chat, 'no')).toMatchObject({
      status: 400,
      error: { param: 'response_format.json_schema.schema.properties.a.pattern' },
    });
    const tools = [{ type: 'function', function: { name: 'f', parameters: wrong } }];
    expect(await call('/v1/chat/completions', { messages: hello, tools, tool_choice: 'required' }, 'no')).toMatchObject(
      {
        status: 400,
        error: { param: 'tools[0].function.parameters.properties.a.pattern' },
      },
    );
  });
});

describe('a tool call that is forced', () => {
  const functions = ['one', 'two'].map((name) => ({ name, parameters: schema }));
  it.each([
    [
      '/v1/chat/completions',
      { messages: hello, tools: functions.map((f) => ({ type: 'function', function: f })) },
      { type: 'function', function: { name: 'two' } },
    ],
    [
      '/v1/messages',
      { messages: hello, max_tokens: 300, tools: functions.map(({ name }) => ({ name, input_schema: schema })) },
      { type: 'tool', name: 'two' },
    ],
    [
      '/v1/responses',
      { input: 'hello', tools: functions.map((f) => ({ type: 'function', ...f })) },
      { type: 'function', name: 'two' },
    ],
  ])('at %s is made, with arguments that are valid', async (path, body, choice) => {
    const answer = await call(path, { ...body, tool_choice: choice }, `${path} forced`);
    const chat = answer.choices?.[0].message.tool_calls[0].function;
    const made = chat ?? answer.content?.[0] ?? answer.output?.[0];
    expect(made.name).toBe('two');
    expect(Schema.Check(schema, made.input ?? JSON.parse(made.arguments))).toBe(true);
    expect(await reasonOf(`${path} forced`)).toEqual([{ untrainable: 'constrained' }]);
  });

  it('may be of any tool', async () => {
    const tools = functions.map((f) => ({ type: 'function', function: f }));
    const { choices } = await call(
      '/v1/chat/completions',
      { messages: hello, n: 8, tools, tool_choice: 'required' },
      'any',
    );
    for (const { message, finish_reason } of choices) {
      expect([finish_reason, message.tool_calls.length]).toEqual(['tool_calls', 1]);
      expect(['one', 'two']).toContain(message.tool_calls[0].function.name);
    }
  });
});

it('a sample that nothing constrains is trainable', async () => {
  await call('/v1/chat/completions', { messages: hello, max_tokens: 5 }, 'free');
  expect(await reasonOf('free')).toEqual([{ untrainable: null }]);
});
