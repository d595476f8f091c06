/**
 * A rewriter, a selector and a generator: the rewriter makes a query of the question, a search finds three documents, the selector names one of
 * them, and the generator answers from it. Questions have other words than the documents.
 *
 *   node --import tsx examples/retrieval/team.ts --url http://127.0.0.1:7717 [--model policy:rag]
 */
import { seedOf } from '../lib/random.ts';
import { type Play, runTeam } from '../lib/worker.ts';
import { search } from './documents.ts';

type Question = { readonly task_id: string; readonly prompt: string; readonly answer: string };

const play: Play<Question> = async ({ episode_id, task, seed }, { gateway, recorder, models }) => {
  const ask = async (role: string, turn: number, content: string, maxTokens: number): Promise<string> => {
    const messages = [{ role: 'user' as const, content }];
    const call = { episode: episode_id, role, turn, model: models.model!, messages, n: 1, maxTokens, temperature: 1 };
    const [step] = await gateway.ask({ ...call, seed: seedOf(seed, role) >>> 1 });
    return step!.text;
  };
  const query = await ask('rewriter', 0, `rewrite ${task.prompt}`, 2);
  const documents = search(query);
  const observed = { episode_id, kind: 'documents', content: documents };
  recorder.event({ name: 'environment.observed', id: `${episode_id}/documents`, data: observed });
  const list = documents.map((document, i) => `Document${i} ${document}`).join(' ');
  const selected = await ask('selector', 1, `select ${task.prompt} ${list}`, 1);
  const place = /^Document(\d)$/.exec(selected)?.[1];
  const context = place === undefined ? '' : (documents[Number(place)] ?? '');
  // What is open at the end is the state that a written question names as the true one.
  const opened = { episode_id, kind: 'opened', state: { opened: context } };
  recorder.event({ name: 'environment.observed', id: `${episode_id}/opened`, data: opened });
  const answer = await ask('generator', 2, `answer ${task.prompt} ${context}`.trim(), 1);
  // Of answers of one word the overlap with the truth is all or nothing.
  const f1 = answer === task.answer ? 1 : 0;
  const target = { kind: 'episode' as const, id: episode_id, episode_id };
  recorder.feedback({ feedback_id: `${episode_id}/f1`, target, kind: 'score', name: 'f1', value: f1, by: 'env' });
  // The referee of Star-Agents is a program here: an answer is better than that of the document it was written about, or wrong.
  const referee = { feedback_id: `${episode_id}/referee`, target, kind: 'label' as const, name: 'referee' };
  recorder.feedback({ ...referee, value: f1 === 1 ? 'generated' : 'base', by: 'code' });
  return { reward: f1, answer, solved: f1 === 1 };
};

await runTeam<Question>({
  name: 'retrieval',
  source: '/examples/retrieval',
  runner: 'retrieval',
  agents: [
    { name: 'rewriter', role: 'rewriter', prompt: 'rewrite QUESTION' },
    { name: 'selector', role: 'selector', prompt: 'select QUESTION Document0 … Document1 … Document2 …' },
    { name: 'generator', role: 'generator', prompt: 'answer QUESTION DOCUMENT' },
  ],
  models: { model: 'policy:rag' },
  play,
});
