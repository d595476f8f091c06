/**
 * The solver of `team.py` alone, for Node. `OPENAI_BASE_URL` is all that it needs of Troupe; where `TROUPE_TEAM` names a version of it, the
 * model and the prompt are those of the version.
 */
import { readFileSync } from 'node:fs';

const { OPENAI_BASE_URL, OPENAI_API_KEY, TROUPE_TASK, TROUPE_TEAM, MODEL = 'policy:solver' } = process.env;
const task = JSON.parse(readFileSync(TROUPE_TASK!, 'utf8')) as { readonly prompt: string; readonly answer: unknown };
type Version = { readonly agents: readonly { readonly model?: string; readonly prompt?: string }[] };
const version: Version = TROUPE_TEAM ? JSON.parse(readFileSync(TROUPE_TEAM, 'utf8')) : { agents: [{}] };
const { model = MODEL, prompt } = version.agents[0]!;

const system = prompt === undefined ? [] : [{ role: 'system', content: prompt }];
const response = await fetch(`${OPENAI_BASE_URL}/chat/completions`, {
  method: 'POST',
  headers: { 'content-type': 'application/json', authorization: `Bearer ${OPENAI_API_KEY}` },
  body: JSON.stringify({ model, messages: [...system, { role: 'user', content: task.prompt }] }),
});
if (!response.ok) throw new Error(`The gateway answered ${response.status}: ${await response.text()}`);
const { choices } = (await response.json()) as {
  choices: readonly { readonly message: { readonly content: string } }[];
};
const answer = choices[0]!.message.content;
process.stdout.write(`${JSON.stringify({ reward: answer.includes(String(task.answer)) ? 1 : 0, answer })}\n`);
