/**
 * Writers of questions: a model writes a question about a document and its answer, a program checks both, and a committee of three votes on
 * those that pass. What it writes is the answer of the episode: a task as the retrieval team plays it. The reward is 1 where all checks pass.
 *
 *   node --import tsx examples/retrieval/writers.ts --url http://127.0.0.1:7717 [--model writer]
 */
import { seedOf } from '../lib/random.ts';
import { type Play, runTeam } from '../lib/worker.ts';
import { OTHER_WORDS, search } from './documents.ts';

type Document = { readonly task_id: string; readonly prompt: string };

const MEMBERS = ['first', 'second', 'third'];

const play: Play<Document> = async ({ episode_id, task, seed }, { gateway, recorder, models }) => {
  const ask = async (role: string, content: string): Promise<string> => {
    const messages = [{ role: 'user' as const, content }];
    const call = { episode: episode_id, role, model: models.model!, messages, n: 1, maxTokens: 8, temperature: 1 };
    return (await gateway.ask({ ...call, seed: seedOf(seed, role) >>> 1 }))[0]!.text;
  };
  const target = { kind: 'episode' as const, id: episode_id, episode_id };
  const say = (name: string, value: boolean, by: string): boolean => {
    recorder.feedback({
      feedback_id: `${episode_id}/${name}/${by}`,
      target,
      kind: 'label',
      name,
      value: Number(value),
      by,
    });
    return value;
  };
  const words = (await ask('writer', `write ${task.prompt}`)).split(' ');
  const [page, field, answer] = words;
  const question = `${page} ${field}`;
  // A later check is made only where those before it passed.
  const passed =
    say('format_check', words.length === 3, 'code') &&
    say(
      'execution_check',
      search(question).includes(task.prompt) && task.prompt.split(' ').includes(answer!),
      'code',
    ) &&
    say('policy_check', Object.values(OTHER_WORDS).includes(field!), 'code');
  if (passed)
    for (const member of MEMBERS)
      say('vote', (await ask(member, `check ${task.prompt} ${words.join(' ')}`)) === 'yes', member);
  const written = {
    task_id: `written-${page}-${field}`,
    prompt: question,
    answer,
    domain: task.prompt.split(' ')[1],
    reference: { state: { opened: task.prompt }, outputs: [answer] },
  };
  return { reward: passed ? 1 : 0, answer: JSON.stringify(written), solved: passed };
};

await runTeam<Document>({
  name: 'writers',
  source: '/examples/retrieval/writers',
  runner: 'question-writers',
  agents: [
    { name: 'writer', role: 'writer', prompt: 'write DOCUMENT' },
    ...MEMBERS.map((name) => ({ name, role: 'committee', prompt: 'check DOCUMENT QUESTION' })),
  ],
  models: { model: 'writer' },
  play,
});
