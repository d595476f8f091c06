/** The solver of `team.py` alone, for Node: `OPENAI_BASE_URL` is all that it knows of Troupe. */
import { readFileSync } from 'node:fs';

const { OPENAI_BASE_URL, OPENAI_API_KEY, TROUPE_TASK, MODEL = 'policy:solver' } = process.env;
const task = JSON.parse(readFileSync(TROUPE_TASK!, 'utf8')) as { readonly prompt: string; readonly answer: unknown };

const response = await fetch(`${OPENAI_BASE_URL}/chat/completions`, {
  method: 'POST',
  headers: { 'content-type': 'application/json', authorization: `Bearer ${OPENAI_API_KEY}` },
  body: JSON.stringify({ model: MODEL, messages: [{ role: 'user', content: task.prompt }] }),
});
if (!response.ok) throw new Error(`The gateway answered ${response.status}: ${await response.text()}`);
const { choices } = (await response.json()) as {
  choices: readonly { readonly message: { readonly content: string } }[];
};
const answer = choices[0]!.message.content;
process.stdout.write(`${JSON.stringify({ reward: answer.includes(String(task.answer)) ? 1 : 0, answer })}\n`);
