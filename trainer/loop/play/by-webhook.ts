/** One attempt by a server of the team: it gets the episode by POST, plays it, and answers once it is over. */
import type { Post } from '../rewards/score.ts';
import { programEnv, type TeamEnd } from './by-command.ts';
import type { PlayServer } from './entry.ts';
import { episodePath, factsOf, type Play } from './play.ts';
import type { WebhookRunner } from './runners.ts';

/** The body of the request. Keys are as in the environment of a command. Pure. */
function webhookBody(play: Play, agent: string, { url, key }: PlayServer) {
  const facts = factsOf(play, agent);
  const openai = `${url}${facts.base_path}`;
  return {
    ...facts,
    openai_base_url: openai,
    anthropic_base_url: openai.replace(/\/v1$/, ''),
    /** The address of the episode: `episode_url/a/NAME/v1` is the base URL of another agent. */
    episode_url: `${url}${episodePath(play.id)}`,
    troupe_url: url,
    /** Null where none is needed. */
    key,
  };
}
export type WebhookBody = ReturnType<typeof webhookBody>;

/** Sends the episode and waits for the answer, which is the output of the team. */
export async function playByWebhook(
  play: Play,
  {
    runner,
    entry,
    env,
    post,
    signal,
  }: {
    readonly runner: WebhookRunner;
    readonly entry: PlayServer;
    readonly env: Readonly<Record<string, string | undefined>>;
    readonly post: Post;
    readonly signal: AbortSignal;
  },
): Promise<TeamEnd> {
  const { url, keyEnv, isPrivate } = runner.at;
  const secrets = [entry.key, keyEnv === null ? null : env[keyEnv]].filter((one) => one != null && one !== '');
  const hide = (text: string) => secrets.reduce<string>((rest, secret) => rest.replaceAll(secret!, '***'), text);
  const end = { output: '', words: 'answered', env: programEnv(env, []), hide };
  const until = performance.now() + play.secondsLeft * 1000;
  const key = keyEnv === null ? undefined : env[keyEnv];
  try {
    const sent = { key, isPrivate, timeoutS: play.secondsLeft, signal };
    const { status, text } = await post(url, webhookBody(play, runner.agent, entry), sent);
    if (status === 200) return { ...end, ended: null, failure: null, output: text };
    const detail = text.trim() === '' ? '' : `: ${hide(text.trim()).slice(0, SHOWN)}`;
    return {
      ...end,
      ended: null,
      failure: { code: 'answer', message: `It answered ${status} instead of 200${detail}.` },
    };
  } catch (error) {
    const ended = signal.aborted ? 'stopped' : performance.now() >= until ? 'timeout' : null;
    return { ...end, ended, failure: { code: 'answer', message: hide((error as Error).message) } };
  }
}

/** Characters of an answer in a reason. */
const SHOWN = 400;
