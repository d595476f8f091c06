/** One attempt by a server of the team: it gets the episode by POST, plays it, and answers once it is over. */
import type { LeasedAttempt } from '../../../store/loop/play/attempts.ts';
import { programEnv } from './by-command.ts';
import { type EpisodeFacts, episodeFacts } from './leases.ts';
import type { PlayOptions, TeamEnd } from './play-options.ts';
import type { WebhookRunner } from './runners.ts';

type Options = Pick<PlayOptions, 'rollout' | 'entry' | 'env' | 'signal' | 'scoring'> & {
  readonly runner: WebhookRunner;
};

/** The body of the request. Keys are as in the environment of a command. */
export type WebhookBody = EpisodeFacts & {
  readonly openai_base_url: string;
  readonly anthropic_base_url: string;
  /** The address of the episode: `episode_url/a/NAME/v1` is the base URL of another agent. */
  readonly episode_url: string;
  readonly troupe_url: string;
  /** Null where none is needed. */
  readonly key: string | null;
};

/** Pure. */
function webhookBody(
  attempt: LeasedAttempt,
  { rollout, runner, entry: { url, key } }: Pick<Options, 'rollout' | 'entry' | 'runner'>,
): WebhookBody {
  const facts = episodeFacts(rollout, attempt, runner.agent);
  const openai = `${url}${facts.base_path}`;
  return {
    ...facts,
    openai_base_url: openai,
    anthropic_base_url: openai.replace(/\/v1$/, ''),
    episode_url: `${url}/e/${encodeURIComponent(attempt.id)}`,
    troupe_url: url,
    key,
  };
}

/** Sends the episode and waits for the answer, which is the output of the team. */
export async function playByWebhook(attempt: LeasedAttempt, options: Options): Promise<TeamEnd> {
  const { runner, env, signal, scoring } = options;
  const { url, keyEnv, isPrivate } = runner.at;
  const secrets = [options.entry.key, keyEnv === null ? null : env[keyEnv]].filter((one) => one != null && one !== '');
  const hide = (text: string) => secrets.reduce<string>((rest, secret) => rest.replaceAll(secret!, '***'), text);
  const end = { output: '', words: 'answered', env: programEnv(env, []), hide };
  const until = performance.now() + attempt.secondsLeft * 1000;
  const key = keyEnv === null ? undefined : env[keyEnv];
  try {
    const sent = { key, isPrivate, timeoutS: attempt.secondsLeft, signal };
    const { status, text } = await scoring.post(url, webhookBody(attempt, options), sent);
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
