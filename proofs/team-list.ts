/** The teams that are run: in which framework, recorded by what, and what that does not send. */

/** What the table of a team shows. */
export const ASPECTS = ['agents', 'parent', 'calls', 'tools', 'results', 'tokens', 'text', 'hand-over'] as const;
export type Aspect = (typeof ASPECTS)[number];

export type Team = {
  readonly name: string;
  /** What records it. */
  readonly by: string;
  /** Below `clients/teams`. */
  readonly program: string;
  /** A list of requirements or a folder with a lock file, below `clients/teams`. */
  readonly packages: string;
  readonly env?: (url: string) => Readonly<Record<string, string>>;
  /** A Node of its own among its packages, where it needs a newer one. */
  readonly node?: string;
  /** Whether the planner calls the writer and goes on with what it answered; else both are beside each other. */
  readonly subAgent?: boolean;
  /** What of it the client does not send, and why. */
  readonly lacks?: { readonly [aspect in Aspect]?: string };
};

const LANGSMITH = { LANGSMITH_TRACING: 'true', LANGSMITH_API_KEY: 'none' };

export const TEAMS: readonly Team[] = [
  {
    name: 'LangGraph',
    by: 'LangSmith',
    program: 'langgraph_team.py',
    packages: 'langgraph',
    env: (url) => ({ ...LANGSMITH, LANGSMITH_ENDPOINT: url }),
  },
  {
    name: 'LangGraph',
    by: 'LangSmith on OpenTelemetry',
    program: 'langgraph_team.py',
    packages: 'langgraph',
    env: (url) => ({
      ...LANGSMITH,
      LANGSMITH_OTEL_ENABLED: 'true',
      LANGSMITH_OTEL_ONLY: 'true',
      OTEL_EXPORTER_OTLP_ENDPOINT: url,
    }),
  },
  { name: 'LangGraph', by: 'OpenInference', program: 'langgraph_openinference.py', packages: 'langgraph' },
  { name: 'LangGraph', by: 'OpenLLMetry', program: 'langgraph_openllmetry.py', packages: 'langgraph' },
  { name: 'OpenAI Agents SDK', by: 'its own exporter', program: 'openai_agents_team.py', packages: 'agents' },
  {
    name: 'OpenAI Agents SDK',
    by: 'OpenInference',
    program: 'openai_agents_openinference.py',
    packages: 'agents',
    lacks: { parent: 'the workflow around the agents is sent as an agent itself' },
  },
  { name: 'pydantic-ai', by: 'logfire', program: 'pydantic_ai_team.py', packages: 'agents', subAgent: true },
];
